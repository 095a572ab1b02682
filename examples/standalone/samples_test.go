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
