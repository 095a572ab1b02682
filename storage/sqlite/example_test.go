package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"runtime"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
	_ "modernc.org/sqlite"
)

func ExampleNew() {
	db, err := sql.Open("sqlite", "file:canvasback.db?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)"+
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(runtime.NumCPU() + 1)
	db.SetMaxIdleConns(runtime.NumCPU() + 1)

	ctx := context.Background()
	storage := sqlite.New(db)
	if err := storage.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	service := symbols.NewService(storage.Symbols(), nil)
	folder, err := service.CreateFolder(ctx, "Valves")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(folder.ID, folder.Name)
}
