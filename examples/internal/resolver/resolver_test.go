package resolver_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/examples/internal/resolver"
	"example.com/canvasback/exports"
)

func TestResolve_ErrorsHaveNoURL(t *testing.T) {
	is := is.New(t)
	r := resolver.Resolver{URL: "http://u:password@127.0.0.1:1/?code=secret"}
	_, err := r.Resolve(t.Context(), exports.ResolveRequest{Source: "s"})
	is.True(err != nil && !strings.Contains(err.Error(), "code"))
}

// The server closes a connection just before the next request arrives, as one with a
// timeout for idle connections does.
func TestResolve_RepeatsAfterLostConnection(t *testing.T) {
	is := is.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				request, err := http.ReadRequest(reader)
				if err != nil {
					return
				}
				io.Copy(io.Discard, request.Body)
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 31\r\n\r\n{\"exportedUrl\":\"https://x.y/z\"}")
				reader.Peek(1)
			}()
		}
	}()
	r := resolver.Resolver{URL: "http://" + listener.Addr().String()}
	for range 4 {
		resolved, err := r.Resolve(t.Context(), exports.ResolveRequest{Source: "s"})
		is.NoErr(err)
		is.Equal(resolved.ExportedURL, "https://x.y/z")
	}
}
