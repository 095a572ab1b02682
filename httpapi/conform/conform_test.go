package conform_test

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/httpapi/conform"
)

var (
	urlFlag  = flag.String("url", "", "base URL of the server to test; the admin key is in CANVASBACK_ADMIN_KEY")
	fileFlag = flag.String("file", "", "URL of a file of at least 100 bytes that the tests may register")
)

// TestServer tests the server of -url, or else one in this process.
func TestServer(t *testing.T) {
	is := is.New(t)
	options := conform.Options{BaseURL: *urlFlag, AdminKey: os.Getenv("CANVASBACK_ADMIN_KEY"), FileURL: *fileFlag}
	if options.BaseURL != "" {
		is.True(options.AdminKey != "") // set CANVASBACK_ADMIN_KEY
		conform.Run(t, options)
		return
	}
	server := apitest.New(t, func(o *httpapi.Options) { o.Prefix = "/api" })
	options = conform.Options{
		BaseURL:  server.URL + "/",
		AdminKey: apitest.AdminKey,
		FileURL:  server.AddFile("plan.pdf", strings.Repeat("%PDF-1.7 ", 100)),
	}
	conform.Run(t, options)
	t.Run("HTTP/2", func(t *testing.T) {
		secure := httptest.NewUnstartedServer(httpapi.Handler(&server.Options))
		secure.EnableHTTP2 = true
		secure.StartTLS()
		defer secure.Close()
		options.BaseURL, options.Transport = secure.URL+"/api", secure.Client().Transport
		conform.Run(t, options)
	})
	t.Run("tenants", func(t *testing.T) {
		tenants := apitest.New(t, func(o *httpapi.Options) { o.Tenant = httpapi.TenantOfOwner })
		conform.Run(t, conform.Options{
			BaseURL: tenants.URL, AdminKey: apitest.AdminKey, FileURL: tenants.AddFile("plan.pdf", strings.Repeat("%PDF-1.7 ", 100)),
		})
	})

	for path, client := range map[string]*http.Client{
		"/admin/api-keys": server.Admin(), "/admin/exports": server.Admin(), "/symbol/folders": server.Client(),
	} {
		t.Log(path)
		response, err := client.Get(server.URL + path)
		is.NoErr(err)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		is.NoErr(err)
		is.Equal(response.StatusCode, 200)
		is.True(!strings.Contains(string(body), "conform"))
	}
}
