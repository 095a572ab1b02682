package storagetest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// RunBenchmarks measures the calls that requests of clients wait for, on a
// storage with 1,000 keys, symbols and exports.
func RunBenchmarks(b *testing.B, open func(t testing.TB) Harness) {
	const count = 1000
	s := open(b)
	ctx := b.Context()
	folder := insertFolder(b, s, "folder")
	list := newSymbols(make([]string, count)...)
	for i := range list {
		list[i].Data = strings.Repeat("<path d='M0 0'/>", 4<<10/16)
	}
	list = insertSymbols(b, s, folder.ID, list...)
	var uses []keys.Use
	var sources []string
	for i := range count {
		name := strconv.Itoa(i)
		uses = append(uses, useOf(insertKey(b, s, name), testTime))
		sources = append(sources, putExport(b, s, newExport(name)).SourceURL)
	}

	known := epoch(b, s)

	for _, bench := range []struct {
		name string
		do   func(i int) error
	}{
		{"keys/find", func(i int) error {
			_, err := s.Keys().Find(ctx, newKey(strconv.Itoa(i%count)).Digest)
			return err
		}},
		{"keys/changes", func(int) error {
			_, err := s.Keys().Changes(ctx, known)
			return err
		}},
		{"keys/touch 1,000", func(i int) error {
			for j := range uses {
				uses[j].At = testTime.Add(time.Duration(i) * time.Second)
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
			_, _, err := s.Exports().Put(ctx, exports.Export{
				SourceURL:   sources[i%count],
				ExportedURL: "https://files.example/" + strconv.Itoa(i),
				CreatedAt:   testTime,
				UpdatedAt:   testTime,
			}, exports.PutRule{})
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
