package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// The modification time is part of what identifies a sample in a download that is
// resumed, so it must change with the samples.
func TestSamples_ModificationTimeBelongsToContent(t *testing.T) {
	is := is.New(t)
	digest := sha256.New()
	is.NoErr(fs.WalkDir(sampleExports(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(sampleExports(), name)
		fmt.Fprintf(digest, "%s %d\n%s", name, len(content), content)
		return err
	}))
	is.Equal(fmt.Sprintf("%.4x", digest.Sum(nil)), "9cceb2d2") // if the samples have changed: set samplesModified too
}

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

// Processes on one SQLite file leave the samples to the first of them, whose URL is
// replaced after it has ended.
func TestSamples_OfSeveralProcesses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	env := map[string]string{"DATABASE_URL": "sqlite:" + filepath.Join(t.TempDir(), "canvas.db"), "PROTECT_ROUTES": "false"}
	const drawing = `{"sourceFileUrl":"https://viewer.example/drawings/pump-skid"}`
	first, second := startServer(t, env), startServer(t, env)
	for _, s := range []*server{first, second} {
		status, _ := s.send("POST", "/viewer/exports/download", drawing)
		is.Equal(status, 200)
	}
	is.NoErr(first.stop())
	third := startServer(t, env)
	exported := third.sendJSON(200, "POST", "/viewer/exports/download?responseType=urls", drawing)["exportedUrl"]
	is.Equal(exported, strings.TrimSuffix(third.url, "/api")+"/samples/pump-skid.svg")
}
