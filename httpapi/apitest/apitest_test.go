package apitest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
)

// read returns the status and the body of a response: read(send())(t).
func read(response *http.Response, err error) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		is := is.New(t)
		is.NoErr(err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		is.NoErr(err)
		return fmt.Sprint(response.StatusCode, " ", string(body))
	}
}

func TestServer_ServesTheAPI(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := apitest.New(t, func(options *httpapi.Options) { options.Prefix = "/api" })
	is.True(strings.HasSuffix(s.URL, "/api"))

	is.Equal(read(s.Client().Get(s.URL+"/symbol/folders"))(t), "200 []")
	is.True(strings.HasPrefix(read(http.Get(s.URL+"/symbol/folders"))(t), "401 "))
	is.True(strings.Contains(read(s.Admin().Get(s.URL+"/admin/api-keys"))(t), `"name":"apitest"`))

	s.RegisterExport(t, "https://drawings.example/1", "drawing one.pdf", "%PDF")
	response, err := s.Client().Post(s.URL+"/viewer/exports/download", "application/json",
		strings.NewReader(`{"sourceFileUrl":"https://drawings.example/1"}`))
	is.Equal(read(response, err)(t), "200 %PDF")
	is.Equal(response.Header.Get("Content-Disposition"), `attachment; filename="drawing one.pdf"`)

	_, _, err = s.Exports.Register(t.Context(), exports.Registration{SourceURL: "s", ExportedURL: s.AddFile("2024/plan 1.pdf", "%PDF")})
	is.NoErr(err)

	expiry := new(s.Clock.Now().Add(time.Hour))
	issued, err := s.Keys.Create(t.Context(), keys.Fields{ExpiresAt: expiry})
	is.NoErr(err)
	_, err = s.Keys.Verify(t.Context(), string(issued.Raw))
	is.NoErr(err)
	s.Clock.Add(2 * time.Hour)
	_, err = s.Keys.Verify(t.Context(), string(issued.Raw))
	is.Equal(err, keys.ErrExpired)
}

// TestServer_EndsOpenStreams leaves a stream of changes open, as an application that follows them
// until after the test does.
func TestServer_EndsOpenStreams(t *testing.T) {
	t.Parallel()
	var body io.ReadCloser
	t.Run("test", func(t *testing.T) {
		s := apitest.New(t)
		response, err := s.Client().Get(s.URL + "/symbol/changes")
		is.New(t).NoErr(err)
		body = response.Body
	})
	io.Copy(io.Discard, body)
	body.Close()
}

func TestClock_AddIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	clock := apitest.New(t).Clock
	start := clock.Now()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10_000 {
				clock.Add(time.Second)
			}
		})
	}
	wg.Wait()
	is.New(t).Equal(clock.Now().Sub(start), 80_000*time.Second)
}

func TestServer_ClientsSendKeysOnlyToTheirServer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, other := apitest.New(t), apitest.New(t)
	is.True(strings.HasPrefix(read(s.Client().Get(other.URL+"/symbol/folders"))(t), "401 "))
	is.True(strings.HasPrefix(read(s.Admin().Get(other.URL+"/admin/api-keys"))(t), "401 "))
}

func TestServer_Token(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := apitest.New(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/symbol/folders", http.NoBody)
	is.NoErr(err)
	request.Header.Set("x-api-key", string(s.Token(t, keys.TokenFields{Lifetime: time.Minute})))
	for _, want := range []int{200, 403} {
		response, err := http.DefaultClient.Do(request)
		is.NoErr(err)
		is.NoErr(response.Body.Close())
		is.Equal(response.StatusCode, want)
		s.Clock.Add(2 * time.Minute)
	}
}
