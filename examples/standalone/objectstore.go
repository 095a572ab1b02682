package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/exports/s3"
	"example.com/canvasback/httpapi"
)

// objectStore is the configuration of an S3-compatible object store.
type objectStore struct {
	buckets          []string // none if empty
	endpoint, region string
	urlLifetime      time.Duration
}

// openers returns the Opener of the object store, if one is configured. The AWS SDK
// finds the credentials, and renews them if they are those of a role.
func (o objectStore) openers(ctx context.Context, log *slog.Logger) ([]exports.Opener, error) {
	if len(o.buckets) == 0 {
		if o.endpoint != "" {
			return nil, errors.New("EXPORT_S3_ENDPOINT requires EXPORT_S3_BUCKETS")
		}
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	sdk, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithDefaultRegion(cmp.Or(o.region, "us-east-1")))
	if err == nil {
		_, err = sdk.Credentials.Retrieve(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("EXPORT_S3_BUCKETS requires credentials, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: %w", err)
	}
	opener, err := s3.New(&s3.Options{
		Buckets:         o.buckets,
		Credentials:     sdk.Credentials,
		Region:          cmp.Or(o.region, sdk.Region),
		Endpoint:        o.endpoint,
		PresignLifetime: o.urlLifetime,
		Fetch:           fetch.Options{Logger: log, RequestID: httpapi.RequestIDFromContext},
	})
	if err != nil {
		return nil, fmt.Errorf("EXPORT_S3_BUCKETS, EXPORT_S3_ENDPOINT or EXPORT_S3_REGION: %w", err)
	}
	return []exports.Opener{opener}, nil
}
