// Package resolver asks another program for exports that are not registered.
package resolver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"example.com/canvasback/exports"
)

// Resolver sends POST requests with {"sourceFileUrl": "...", "tenant": "..."} to a URL. A
// response is {"exportedUrl": "...", "fileName": "...", "register": true}, of which the last
// two may be missing; 404; or 202 with Retry-After while the file is being made.
type Resolver struct {
	URL   string
	Token string // bearer token; none if empty
}

// Check returns an error if there is a URL that is not one of http or https.
func (r *Resolver) Check() error {
	u, err := url.Parse(r.URL)
	if r.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "") {
		return errors.New("must be an http or https URL")
	}
	return nil
}

var client = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Resolve is an [exports.Options.Resolve].
func (r *Resolver) Resolve(ctx context.Context, in exports.ResolveRequest) (resolved exports.Resolution, err error) {
	body, _ := json.Marshal(struct { // strings always encode
		SourceFileURL string `json:"sourceFileUrl"`
		Tenant        string `json:"tenant,omitempty"`
	}{in.Source, in.Tenant})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(body))
	if err != nil {
		return resolved, err
	}
	request.Header["Idempotency-Key"] = nil // not sent: a request may be repeated if a kept connection is closed
	request.Header.Set("Content-Type", "application/json")
	if r.Token != "" {
		request.Header.Set("Authorization", "Bearer "+r.Token)
	}
	response, err := client.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the URL, which may have a secret
	}
	if err != nil {
		return resolved, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusNotFound:
		return resolved, exports.ErrNotFound
	case http.StatusAccepted:
		seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31)
		return resolved, &exports.NotReadyError{RetryAfter: time.Duration(seconds) * time.Second}
	case http.StatusOK:
		return readResolution(response)
	}
	return resolved, fmt.Errorf("unexpected status %s", response.Status)
}

func readResolution(response *http.Response) (resolved exports.Resolution, err error) {
	if mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); mediaType != "application/json" {
		return resolved, fmt.Errorf("unexpected Content-Type %q", mediaType)
	}
	text, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, 1<<20))
	if err != nil {
		return resolved, err
	}
	return resolved, json.Unmarshal(text, &struct {
		ExportedURL *string `json:"exportedUrl"`
		FileName    *string `json:"fileName"`
		Register    *bool   `json:"register"`
	}{&resolved.ExportedURL, &resolved.FileName, &resolved.Register})
}

// CutQuery is an [exports.Options.SourceKey] that ignores all behind the first question mark.
func CutQuery(source string) string {
	path, _, _ := strings.Cut(source, "?")
	return path
}
