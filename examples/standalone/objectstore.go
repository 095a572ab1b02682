package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/s3"
)

// openObjectStore returns the Opener of the object store, if one is configured. The AWS
// SDK finds the credentials, and renews them if they are those of a role. It warns if a
// bucket cannot be used.
func openObjectStore(ctx context.Context, options s3.Options, log *slog.Logger) ([]exports.Opener, error) {
	if len(options.Buckets) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	sdk, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithDefaultRegion(cmp.Or(options.Region, "us-east-1")))
	if err == nil {
		_, err = sdk.Credentials.Retrieve(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("EXPORT_S3_BUCKETS: requires credentials, such as AWS_ACCESS_KEY_ID: %w", err)
	}
	options.Credentials, options.Region = sdk.Credentials, cmp.Or(options.Region, sdk.Region)
	opener, err := s3.New(&options)
	if err != nil {
		return nil, fmt.Errorf("EXPORT_S3_BUCKETS: %w", err)
	}
	if err := opener.Probe(ctx); err != nil {
		log.Warn("object store cannot be used", "error", err)
	}
	return []exports.Opener{opener}, nil
}
