package sqlite_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"example.com/canvasback/storage/internal/storebench"
	"example.com/canvasback/symbols"
)

// BenchmarkInsertSymbol compares the insertion of a symbol of 4 KB with a prepared
// INSERT into a table without triggers, where each row is one commit.
func BenchmarkInsertSymbol(b *testing.B) {
	store := open(b).Symbols()
	folder, err := store.InsertFolder(b.Context(), symbols.Folder{Name: "folder"})
	if err != nil {
		b.Fatal(err)
	}
	_, plainDSN := openFile(b)
	plain := connect(b, plainDSN)
	for _, statement := range []string{
		`CREATE TABLE plain (id INTEGER PRIMARY KEY AUTOINCREMENT, folder_id INTEGER, version INTEGER, name TEXT, type TEXT, data TEXT) STRICT`,
		`CREATE INDEX plain_folder_id ON plain (folder_id)`,
	} {
		if _, err := plain.ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	insert, err := plain.PrepareContext(b.Context(), `INSERT INTO plain (folder_id, version, name, type, data) VALUES (?, 1, ?, ?, ?)`)
	if err != nil {
		b.Fatal(err)
	}
	defer insert.Close()
	symbol := symbols.Symbol{Name: "Gate valve", Type: "application/json", Data: strings.Repeat(`{"x":12}`, 512)}
	var writer sync.Mutex
	for _, goroutines := range []int{1, 16} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			storebench.Compare(b, 400/goroutines, goroutines, func(int, int) error {
				_, err := store.InsertSymbols(b.Context(), folder.ID, []symbols.Symbol{symbol})
				return err
			}, func(int, int) error {
				writer.Lock()
				defer writer.Unlock()
				_, err := insert.ExecContext(b.Context(), folder.ID, symbol.Name, symbol.Type, symbol.Data)
				return err
			})
		})
	}
}
