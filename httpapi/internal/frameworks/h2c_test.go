package frameworks

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/matryer/is"
	"golang.org/x/net/http2"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
)

// TestFrameworks_UpgradeToHTTP2 upgrades connections as curl --http2 and the HTTP client of
// Java do. The request that upgrades has the version HTTP/1.1, but its response is a stream.
func TestFrameworks_UpgradeToHTTP2(t *testing.T) {
	is := is.New(t)
	const idle, writeTimeout = 500 * time.Millisecond, 2 * time.Second
	const size = 1 << 20
	fixture := apitest.New(t, func(o *httpapi.Options) { o.Prefix, o.Limits.IdleTimeout = "/api", idle })
	fixture.RegisterExport(t, "s", "s.pdf", strings.Repeat("x", size))
	api, err := httpapi.New(&fixture.Options)
	is.NoErr(err)
	router := gin.New()
	router.UseH2C = true
	router.Any("/api/*path", gin.WrapH(api))
	var log syncBuffer
	server := httptest.NewUnstartedServer(router.Handler())
	server.Config.WriteTimeout = writeTimeout
	server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(&log, nil), slog.LevelInfo)
	httpapi.ConfigureServer(server.Config)
	server.Start()
	defer server.Close()

	// A client that reads steadily receives all, although that takes longer than WriteTimeout.
	framer := upgrade(t, server, "download", string(fixture.RawKey), 65535)
	began := time.Now()
	for got := 0; got < size; {
		frame, err := framer.ReadFrame()
		is.NoErr(err)
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			t.Fatalf("the stream was reset after %v and %d bytes", time.Since(began), got)
		case *http2.DataFrame:
			got += int(frame.Length)
			time.Sleep(3 * time.Duration(frame.Length) * time.Microsecond)
			is.NoErr(framer.WriteWindowUpdate(0, max(frame.Length, 1)))
			is.NoErr(framer.WriteWindowUpdate(1, max(frame.Length, 1)))
		}
	}
	is.True(time.Since(began) > writeTimeout)

	// One that reads nothing is reset after IdleTimeout, also if the response is short.
	for _, route := range []string{"download", "nope"} {
		framer = upgrade(t, server, route, string(fixture.RawKey), 0)
		began = time.Now()
		for {
			frame, err := framer.ReadFrame()
			is.NoErr(err)
			if _, ok := frame.(*http2.RSTStreamFrame); ok {
				break
			}
		}
		is.True(time.Since(began) < writeTimeout)
	}
	is.Equal(log.String(), "")
}

// upgrade requests the source "s" over a new connection with the given window.
func upgrade(t *testing.T, server *httptest.Server, route, rawKey string, window uint32) *http2.Framer {
	t.Helper()
	is := is.New(t)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	is.NoErr(err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	const body = `{"sourceFileUrl":"s"}`
	fmt.Fprintf(conn, "POST /api/viewer/exports/%s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nConnection: Upgrade, HTTP2-Settings\r\n"+
		"Upgrade: h2c\r\nHTTP2-Settings: AAQAAAAA\r\nContent-Length: %d\r\n\r\n%s", route, rawKey, len(body), body)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	is.NoErr(err)
	is.Equal(response.StatusCode, http.StatusSwitchingProtocols)
	_, err = io.WriteString(conn, http2.ClientPreface)
	is.NoErr(err)
	framer := http2.NewFramer(conn, reader)
	is.NoErr(framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	return framer
}
