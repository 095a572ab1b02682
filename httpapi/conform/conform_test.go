package conform_test

import (
	"flag"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/httpapi/conform"
)

var (
	urlFlag  = flag.String("url", "", "base URL of the server to test; the admin key is in CANVASBACK_ADMIN_KEY")
	fileFlag = flag.String("file", "", "URL of a file of at least 100 bytes that the server may fetch")
)

// TestServer tests the server of -url, or else one in this process.
func TestServer(t *testing.T) {
	options := conform.Options{BaseURL: *urlFlag, AdminKey: os.Getenv("CANVASBACK_ADMIN_KEY"), FileURL: *fileFlag}
	if options.BaseURL != "" {
		if options.AdminKey == "" {
			t.Fatal("CANVASBACK_ADMIN_KEY is not set")
		}
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

	for path, client := range map[string]*http.Client{
		"/admin/api-keys": server.Admin(), "/admin/exports": server.Admin(), "/symbol/folders": server.Client(),
	} {
		response, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != 200 || strings.Contains(string(body), "conform") {
			t.Errorf("GET %s: %d, and data remains: %s, %v", path, response.StatusCode, body, err)
		}
	}
}
