// Package storebench measures storage drivers.
package storebench

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/symbols"
)

// createdAt is the time of all records.
var createdAt = time.Date(2026, 3, 30, 12, 0, 0, 123e6, time.UTC)

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func digestOf(i int) keys.Digest { return sha256.Sum256([]byte(strconv.Itoa(i))) }

func newExport(source string) exports.Export {
	return exports.Export{
		SourceURL:    source,
		ExportedURL:  "https://files.example/" + source,
		FileName:     source + ".pdf",
		RegisteredBy: "key 7",
		CreatedAt:    createdAt,
		UpdatedAt:    createdAt,
	}
}

// RunCalls measures the calls that requests of clients wait for, on a storage with
// 1,000 keys, symbols and exports.
func RunCalls(b *testing.B, open func(t testing.TB) storagetest.Harness) {
	const count = 1000
	s := open(b)
	ctx := b.Context()
	folder, err := s.Symbols().InsertFolder(ctx, symbols.Folder{Name: "folder"})
	must(b, err)
	list := make([]symbols.Symbol, count)
	for i := range list {
		list[i] = symbols.Symbol{Type: "image/svg+xml", Data: strings.Repeat("<path d='M0 0'/>", 4<<10/16)}
	}
	list, err = s.Symbols().InsertSymbols(ctx, folder.ID, list)
	must(b, err)
	var uses []keys.Use
	var sources []string
	for i := range count {
		key, err := s.Keys().Insert(ctx, keys.Key{Active: true, Digest: digestOf(i), CreatedAt: createdAt, UpdatedAt: createdAt})
		must(b, err)
		uses = append(uses, keys.Use{ID: key.ID, CreatedAt: key.CreatedAt, At: createdAt, Count: 1})
		export, _, err := s.Exports().Put(ctx, newExport(strconv.Itoa(i)), exports.PutRule{})
		must(b, err)
		sources = append(sources, export.SourceURL)
	}
	known, err := s.Keys().Changes(ctx, 0)
	must(b, err)

	for _, bench := range []struct {
		name string
		do   func(i int) error
	}{
		{"keys/find", func(i int) error {
			_, err := s.Keys().Find(ctx, digestOf(i%count))
			return err
		}},
		{"keys/changes", func(int) error {
			_, err := s.Keys().Changes(ctx, known.Epoch)
			return err
		}},
		{"keys/touch 1,000", func(i int) error {
			for j := range uses {
				uses[j].At = createdAt.Add(time.Duration(i) * time.Second)
			}
			return s.Keys().Touch(ctx, uses, uses[0].At)
		}},
		{"symbols/version", func(int) error {
			_, err := s.Symbols().ContentsVersion(ctx, folder.ID)
			return err
		}},
		{"symbols/get 4 KB", func(i int) error {
			_, err := s.Symbols().GetSymbol(ctx, list[i%count].ID)
			return err
		}},
		{"symbols/list 256 KB", func(int) error {
			_, err := s.Symbols().ListSymbols(ctx, folder.ID, symbols.Range{}, 256<<10)
			return err
		}},
		{"symbols/update 4 KB", func(i int) error {
			_, err := s.Symbols().UpdateSymbol(ctx, list[i%count].ID, func(symbol *symbols.Symbol) error {
				symbol.Name = strconv.Itoa(i)
				return nil
			})
			return err
		}},
		{"symbols/insert 4 KB", func(int) error {
			_, err := s.Symbols().InsertSymbols(ctx, folder.ID, list[:1])
			return err
		}},
		{"exports/find 1", func(i int) error {
			_, err := s.Exports().Find(ctx, sources[i%count])
			return err
		}},
		{"exports/find 1,000", func(int) error {
			_, err := s.Exports().Find(ctx, sources...)
			return err
		}},
		{"exports/put", func(i int) error {
			_, _, err := s.Exports().Put(ctx, newExport(sources[i%count]), exports.PutRule{})
			return err
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				must(b, bench.do(i))
				i++
			}
		})
	}
}
