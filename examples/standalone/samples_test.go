package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

func TestSamples_LinkIsResumable(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startServer(t, map[string]string{"PROTECT_ROUTES": "false"})
	link := s.sendJSON(201, "POST", "/viewer/exports/links",
		batch("https://viewer.example/drawings/pump-skid", "https://viewer.example/drawings/datasheet"))
	is.Equal(link["resumable"], true)
	url := fmt.Sprint("/viewer/exports/", link["url"])
	archive := s.sendText(200, "GET", url, "")
	is.Equal(float64(len(archive)), link["size"])
	is.True(s.sendText(206, "GET", url, "", "Range", "bytes=1000-") == archive[1000:])
}

// lateStore is a store whose folders another process creates after they were listed.
type lateStore struct{ symbols.Store }

func (lateStore) ListFolders(context.Context, symbols.Range) (symbols.FolderPage, error) {
	return symbols.FolderPage{}, nil
}

func TestSeed_AtTheSameTime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var err error
	db, p := memory.New(), &program{config: new(config)}
	p.api.Keys, err = keys.NewService(db.Keys(), nil)
	is.NoErr(err)
	p.api.Symbols, err = symbols.NewService(lateStore{db.Symbols()}, nil)
	is.NoErr(err)
	p.api.Exports, err = exports.NewService(db.Exports(), nil)
	is.NoErr(err)
	_, err = p.api.Symbols.CreateFolder(t.Context(), sampleFolder)
	is.NoErr(err)
	_, err = p.seed(t.Context())
	is.NoErr(err)
}
