package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"example.com/canvasback/symbols"
)

// folderCall is a call of a method for folders.
type folderCall struct {
	method string
	id     int64
	name   string
}

// folderAnswer is what it was answered with.
type folderAnswer struct {
	folder symbols.Folder
	list   symbols.FolderList
	saw    symbols.Folder // by the function of an update
	err    error          // one that the contract names
}

// folders are all folders, ids ascending. Their version is unknown until
// somebody lists them.
type folders struct {
	all     []symbols.Folder
	version symbols.Version
}

// folderModel says which answers are right.
var folderModel = porcupine.Model{
	Init: func() any { return folders{} },
	Equal: func(a, b any) bool {
		return a.(folders).version == b.(folders).version && slices.Equal(a.(folders).all, b.(folders).all)
	},
	Step: func(before, call, answer any) (bool, any) {
		return before.(folders).step(call.(folderCall), answer.(folderAnswer))
	},
}

func (f folders) step(call folderCall, answer folderAnswer) (ok bool, after folders) {
	at, found := slices.BinarySearchFunc(f.all, call.id, func(folder symbols.Folder, id int64) int {
		return int(folder.ID - id)
	})
	namesake := slices.IndexFunc(f.all, func(folder symbols.Folder) bool { return folder.Name == call.name })
	switch call.method {
	case "list":
		if f.version != 0 && f.version != answer.list.Version {
			return false, f
		}
		return slices.Equal(f.all, answer.list.Folders), folders{f.all, answer.list.Version}
	case "get":
		if !found {
			return answer.err == symbols.ErrFolderNotFound, f
		}
		return answer.err == nil && answer.folder == f.all[at], f
	case "insert":
		if namesake >= 0 {
			return answer.err == symbols.ErrFolderNameTaken, f
		}
		at, taken := slices.BinarySearchFunc(f.all, answer.folder.ID, func(folder symbols.Folder, id int64) int {
			return int(folder.ID - id)
		})
		if answer.err != nil || taken || answer.folder.Name != call.name {
			return false, f
		}
		return true, folders{all: slices.Insert(slices.Clone(f.all), at, answer.folder)}
	case "rename":
		switch {
		case !found:
			return answer.err == symbols.ErrFolderNotFound, f
		case namesake >= 0 && namesake != at:
			return answer.err == symbols.ErrFolderNameTaken, f
		case answer.err != nil || answer.saw != f.all[at] || answer.folder.Name != call.name:
			return false, f
		case namesake == at:
			return answer.folder == f.all[at], f
		}
		all := slices.Clone(f.all)
		all[at] = answer.folder
		return answer.folder.ID == call.id && answer.folder.Version != answer.saw.Version, folders{all: all}
	case "delete":
		if !found {
			return answer.err == symbols.ErrFolderNotFound, f
		}
		return answer.err == nil, folders{all: slices.Delete(slices.Clone(f.all), at, at+1)}
	}
	panic(call.method)
}

// disturbFolders makes a call at random.
func disturbFolders(t testing.TB, h *history, client int, store symbols.Store) {
	ctx := context.WithoutCancel(t.Context())
	call := folderCall{
		method: []string{"list", "get", "get", "insert", "insert", "rename", "rename", "delete"}[rand.N(8)],
		id:     h.anyID(),
		name:   fmt.Sprint(rand.N(4)),
	}
	h.record(client, call, func() any {
		var answer folderAnswer
		switch call.method {
		case "list":
			answer.list, answer.err = store.ListFolders(ctx)
		case "get":
			answer.folder, answer.err = store.GetFolder(ctx, call.id)
		case "insert":
			answer.folder, answer.err = store.InsertFolder(ctx, symbols.Folder{Name: call.name})
		case "rename":
			answer.folder, answer.err = store.UpdateFolder(ctx, call.id, func(folder *symbols.Folder) error {
				answer.saw = *folder
				folder.Name = call.name
				return nil
			})
		case "delete":
			answer.err = store.DeleteFolder(ctx, call.id)
		}
		for _, named := range []error{symbols.ErrFolderNotFound, symbols.ErrFolderNameTaken} {
			if errors.Is(answer.err, named) {
				answer.err = named
				return answer
			}
		}
		if answer.err != nil {
			t.Errorf("%+v: %v", call, answer.err)
		}
		if call.method == "insert" {
			h.given(answer.folder.ID)
		}
		return answer
	})
}

// dropFolders leaves a store without folders.
func dropFolders(t testing.TB, store symbols.Store) {
	t.Helper()
	list, err := store.ListFolders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range list.Folders {
		if err := store.DeleteFolder(t.Context(), folder.ID); err != nil {
			t.Fatal(err)
		}
	}
}
