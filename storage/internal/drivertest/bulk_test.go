package drivertest

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

// TestUpdateSymbols_ChecksUnchangedOnes changes two symbols together while another process
// does, and checks that the result is that of one call after the other, although the first
// call finds that one symbol need not change.
func TestUpdateSymbols_ChecksUnchangedOnes(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		store, other := db.migrated().Symbols(), db.connect().Symbols()
		tag := must(symbols.NewTags("tag"))(t)
		folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
		list := must(store.InsertSymbols(t.Context(), folder.ID, []symbols.Symbol{
			{Name: "without", Type: "text/plain", Data: "data"}, {Name: "with", Type: "text/plain", Data: "data", Tags: tag},
		}))(t)
		ids := []int64{list[0].ID, list[1].ID}
		set := func(store symbols.Store, tags symbols.Tags, before func()) {
			_, err := store.UpdateSymbols(t.Context(), ids, symbols.Stamp{At: time.Now()}, func(info *symbols.SymbolInfo) error {
				before()
				info.Tags = tags
				return nil
			})
			is.NoErr(err)
		}
		removed := false
		set(store, tag, func() {
			if !removed {
				removed = true
				set(other, symbols.Tags{}, func() {})
			}
		})
		for _, info := range must(store.FindSymbolInfos(t.Context(), ids))(t) {
			is.Equal(info.Tags, tag)
		}
	})
}
