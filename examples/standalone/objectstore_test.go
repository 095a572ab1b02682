package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
)

// setAWS sets the environment variables of the AWS SDK, and no others of it.
func setAWS(t *testing.T, variables map[string]string) {
	t.Helper()
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE",
		"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	} {
		t.Setenv(name, variables[name])
	}
}

// startObjectStore starts an object store that requires some signature and reports
// each session token. Package s3 tests the signatures themselves.
func startObjectStore(t *testing.T, token func(string)) (url string) {
	t.Helper()
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
			return
		}
		token(r.Header.Get("X-Amz-Security-Token"))
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("content of "+r.URL.Path))
	}))
	t.Cleanup(store.Close)
	return store.URL
}

func TestServer_DownloadsFromObjectStore(t *testing.T) {
	is := is.New(t)
	const secret, token = "secret-of-the-bucket", "token-of-the-session"
	setAWS(t, map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": token, "AWS_REGION": "not-this-1"})
	store := startObjectStore(t, func(got string) { is.Equal(got, token) })
	s := startServer(t, map[string]string{
		"PROTECT_ROUTES": "false", "EXPORT_S3_ENDPOINT": store, "EXPORT_S3_BUCKETS": "plans/public/, photos",
		"EXPORT_S3_REGION": "eu-central-1", "EXPORT_S3_URL_LIFETIME": "5m",
	})
	for _, exported := range []string{"s3://plans/public/a%20b.pdf", store + "/plans/public/a%20b.pdf"} {
		s.register(exported, exported)
		content := s.sendText(200, "POST", "/viewer/exports/download", single(exported))
		is.Equal(content, "content of /plans/public/a b.pdf")
		out := s.sendJSON(200, "POST", "/viewer/exports/download?responseType=urls", single(exported))
		public := out["exportedUrl"].(string)
		is.True(strings.HasPrefix(public, store+"/plans/public/a%20b.pdf?"))
		is.True(strings.Contains(public, "X-Amz-Expires=300"))
		is.True(strings.Contains(public, "%2Feu-central-1%2Fs3%2F"))
	}
	for _, exported := range []string{
		"s3://plans/private/a", "s3://plans/public/../private/a", "s3://other/a", "s3://photos/", "s3://photos/a?acl", store + "/other/a", store + "/photos/?list-type=2",
		strings.Replace(store, "127.0.0.1", "localhost", 1) + "/photos/a",
	} {
		rejected := s.sendJSON(400, "POST", "/viewer/exports/register", registration("1", exported))
		is.True(strings.HasPrefix(rejected["message"].(string), "exportedUrl "))
	}
	is.True(!strings.Contains(s.log.String(), secret))
	is.True(!strings.Contains(s.log.String(), token))
	is.True(!strings.Contains(s.log.String(), "Signature="))
}

// The role of a container has credentials that change. Each is used when it is due.
func TestServer_DownloadsWithRole(t *testing.T) {
	is := is.New(t)
	var retrieved, used atomic.Int32
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"secret","Token":"token-%d","Expiration":%q}`,
			retrieved.Add(1), time.Now().Add(time.Minute).UTC().Format(time.RFC3339)) // so soon that the SDK does not keep them
	}))
	t.Cleanup(role.Close)
	setAWS(t, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": role.URL})
	store := startObjectStore(t, func(got string) {
		used.Add(1)
		is.Equal(got, fmt.Sprint("token-", retrieved.Load()))
	})
	s := startServer(t, map[string]string{"PROTECT_ROUTES": "false", "EXPORT_S3_ENDPOINT": store, "EXPORT_S3_BUCKETS": "plans"})
	s.register("1", "s3://plans/a")
	for range 3 {
		s.sendText(200, "POST", "/viewer/exports/download", single("1"))
	}
	is.Equal(used.Load(), int32(4))      // the first one probes the bucket
	is.Equal(retrieved.Load(), int32(5)) // the first one checks that there are any
}

func TestRun_RejectsBucketsWithoutCredentials(t *testing.T) {
	setAWS(t, nil)
	err := runError(t, map[string]string{"EXPORT_S3_BUCKETS": "plans"})
	is.New(t).True(err != nil && strings.HasPrefix(err.Error(), "EXPORT_S3_BUCKETS: requires credentials"))
}
