package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

// folderCall is a call of a folder method.
type folderCall struct {
	method string
	id     int64
	name   string
}

type folderResult struct {
	folder symbols.Folder
	list   symbols.FolderPage
	saw    symbols.Folder // argument of the update function
	err    error          // a documented error
}

// folders is the state of the model: all folders, ids ascending. The version is
// 0, that is unknown, between a change and the next list call.
type folders struct {
	all     []symbols.Folder
	version symbols.Version
}

// folderModel defines the correct results.
var folderModel = porcupine.Model{
	Init: func() any { return folders{} },
	Equal: func(a, b any) bool {
		return a.(folders).version == b.(folders).version && slices.Equal(a.(folders).all, b.(folders).all)
	},
	Step: func(before, call, result any) (bool, any) {
		return before.(folders).step(call.(folderCall), result.(folderResult))
	},
}

func (f folders) step(call folderCall, result folderResult) (ok bool, after folders) {
	at, found := slices.BinarySearchFunc(f.all, call.id, func(folder symbols.Folder, id int64) int {
		return int(folder.ID - id)
	})
	sameName := slices.IndexFunc(f.all, func(folder symbols.Folder) bool { return folder.Name == call.name })
	switch call.method {
	case "list":
		if f.version != 0 && f.version != result.list.Version {
			return false, f
		}
		return slices.Equal(f.all, result.list.Folders), folders{f.all, result.list.Version}
	case "get":
		if !found {
			return result.err == symbols.ErrFolderNotFound, f
		}
		return result.err == nil && result.folder == f.all[at], f
	case "insert":
		if sameName >= 0 {
			return result.err == symbols.ErrFolderNameTaken, f
		}
		at, taken := slices.BinarySearchFunc(f.all, result.folder.ID, func(folder symbols.Folder, id int64) int {
			return int(folder.ID - id)
		})
		if result.err != nil || taken || result.folder.Name != call.name {
			return false, f
		}
		return true, folders{all: slices.Insert(slices.Clone(f.all), at, result.folder)}
	case "rename":
		switch {
		case !found:
			return result.err == symbols.ErrFolderNotFound, f
		case sameName >= 0 && sameName != at:
			return result.err == symbols.ErrFolderNameTaken, f
		case result.err != nil || result.saw != f.all[at] || result.folder.Name != call.name:
			return false, f
		case sameName == at:
			return result.folder == f.all[at], f
		}
		all := slices.Clone(f.all)
		all[at] = result.folder
		return result.folder.ID == call.id && result.folder.Version != result.saw.Version, folders{all: all}
	case "delete":
		if !found {
			return result.err == symbols.ErrFolderNotFound, f
		}
		return result.err == nil, folders{all: slices.Delete(slices.Clone(f.all), at, at+1)}
	}
	panic(call.method)
}

func randomFolderCall(t testing.TB, h *history, client int, store symbols.Store) {
	ctx := context.WithoutCancel(t.Context())
	call := folderCall{
		method: []string{"list", "get", "get", "insert", "insert", "rename", "rename", "delete"}[rand.N(8)],
		id:     h.randomID(),
		name:   fmt.Sprint(rand.N(4)),
	}
	h.record(client, call, func() any {
		var result folderResult
		switch call.method {
		case "list":
			result.list, result.err = store.ListFolders(ctx, symbols.Range{})
		case "get":
			result.folder, result.err = store.GetFolder(ctx, call.id)
		case "insert":
			result.folder, result.err = store.InsertFolder(ctx, symbols.Folder{Name: call.name})
		case "rename":
			result.folder, result.err = store.UpdateFolder(ctx, call.id, func(folder *symbols.Folder) error {
				result.saw = *folder
				folder.Name = call.name
				return nil
			})
		case "delete":
			result.err = store.DeleteFolder(ctx, call.id, symbols.Deletion{Match: symbols.Any})
		}
		for _, sentinel := range []error{symbols.ErrFolderNotFound, symbols.ErrFolderNameTaken} {
			if errors.Is(result.err, sentinel) {
				result.err = sentinel
				return result
			}
		}
		if result.err != nil {
			t.Errorf("%+v: %v", call, result.err)
		}
		if call.method == "insert" {
			h.addID(result.folder.ID)
		}
		return result
	})
}

func deleteFolders(t testing.TB, store symbols.Store) {
	t.Helper()
	is := is.New(t)
	for _, folder := range must(store.ListFolders(t.Context(), symbols.Range{}))(t).Folders {
		is.NoErr(store.DeleteFolder(t.Context(), folder.ID, symbols.Deletion{Match: symbols.Any}))
	}
}
