package main

import (
	"fmt"
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
