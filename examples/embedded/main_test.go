package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun_ServesOwnRoutesAndAPI(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	addr := listener.Addr().String()
	listener.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var out bytes.Buffer // read after run has returned
	go func() {
		done <- run(ctx, slog.New(slog.NewTextHandler(&out, nil)), filepath.Join(t.TempDir(), "embedded.db"), addr)
	}()

	send := func(method, path, header, key string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, nil)
		is.NoErr(err)
		request.Header.Set(header, key)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, ""
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		is.NoErr(err)
		return response.StatusCode, string(body)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if status, _ := send("GET", "/", "x", ""); status != 0 || time.Now().After(deadline) {
			break
		}
	}
	status, body := send("GET", "/", "x", "")
	is.Equal(status, 200)
	is.Equal(body, "The symbol library has 0 folders.\n")

	status, body = send("POST", "/canvas/admin/api-keys", "x-admin-key", "let me in")
	is.Equal(status, 201)
	var issued struct{ APIKey string }
	is.NoErr(json.Unmarshal([]byte(body), &issued))
	is.True(strings.HasPrefix(issued.APIKey, "app_"))

	status, body = send("GET", "/report", "x-api-key", issued.APIKey)
	is.Equal(status, 200)
	is.Equal(body, "A report for API key (key 1).\n")
	status, _ = send("GET", "/report", "x-api-key", "app_nonsense")
	is.Equal(status, 401)

	status, body = send("GET", "/metrics", "x", "")
	is.Equal(status, 200)
	is.True(strings.Contains(body, `canvasback_requests_total{method="GET",route="GET /report",status="401"} 1`))
	stop()
	is.NoErr(<-done)
	is.True(strings.Contains(out.String(), ` component=canvasback method=POST route=/admin/api-keys status=201 `))
}
