package httpapi_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/storage/memory"
)

// TestLinks_RenewalsCountAsRequests requests a link that must be renewed 17 times
// while its upstream does not respond.
func TestLinks_RenewalsCountAsRequests(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var clock apitest.Clock
	clock.Set(time.Now())
	var mu sync.Mutex // held while the upstream does not respond
	options := &exports.Options{Now: clock.Now, Openers: []exports.Opener{openerFunc(func(context.Context) (*exports.File, error) {
		mu.Lock()
		defer mu.Unlock()
		return &exports.File{Body: io.NopCloser(strings.NewReader(smallContent)), Size: -1}, nil
	})}}
	l := &linkHarness{harness: serve(t, func(o *httpapi.Options) { o.Exports = must(exports.NewService(memory.New().Exports(), options)) })}
	l.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":`+quote(filesURL)+`}`).want(201)
	_, path := l.create(exportBody("s"))
	clock.Add(time.Hour) // its plan is outdated, because it has no validator

	const requests = 17
	responses := make(chan response, requests)
	mu.Lock()
	for range requests {
		go func() { responses <- l.send("GET", path, "") }()
	}
	select {
	case first := <-responses:
		first.wantError(429, "too_many_requests")
	case <-time.After(testTimeout):
		t.Error("no request was rejected")
	}
	mu.Unlock()
	rejected := 0
	for range requests - 1 {
		if (<-responses).status != 200 {
			rejected++
		}
	}
	is.Equal(rejected, 0)
}
