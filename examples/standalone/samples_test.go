package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestSamples_LinkIsResumable(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startServer(t, map[string]string{"DATABASE_URL": "memory:", "PROTECT_ROUTES": "false"})
	link := s.sendJSON(201, "POST", "/viewer/exports/links", `{"items":[
		{"sourceFileUrl":"https://viewer.example/drawings/pump-skid"},
		{"sourceFileUrl":"https://viewer.example/drawings/datasheet"}]}`)
	is.Equal(link["resumable"], true)
	url := fmt.Sprint("/viewer/exports/", link["url"])
	status, archive := s.send("GET", url, "")
	is.Equal(status, 200)
	is.Equal(float64(len(archive)), link["size"])
	status, rest := s.send("GET", url, "", "Range", "bytes=1000-")
	is.Equal(status, 206)
	is.Equal(rest, archive[1000:])
}

// TestSamples_OfEarlierVersion: a sample was registered under the URL of its process.
func TestSamples_OfEarlierVersion(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	env := map[string]string{"DATABASE_URL": "sqlite:" + filepath.Join(t.TempDir(), "canvas.db"), "PROTECT_ROUTES": "false"}
	const source = "https://viewer.example/drawings/pump-skid"
	first := startServer(t, env)
	first.sendJSON(200, "POST", "/viewer/exports/register", `{"sourceFileUrl":"`+source+`","exportedUrl":"https://93.184.216.34:443/samples/pump-skid.svg"}`)
	is.NoErr(first.stop())
	second := startServer(t, env)
	status, body := second.send("POST", "/viewer/exports/download", `{"sourceFileUrl":"`+source+`"}`)
	is.Equal(status, 200)
	is.True(strings.HasPrefix(string(body), "<svg"))
}
