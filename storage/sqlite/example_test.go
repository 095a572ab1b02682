package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"

	_ "modernc.org/sqlite"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "canvasback-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "canvasback.db")+
		"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	pool.SetMaxOpenConns(runtime.NumCPU() + 1)
	pool.SetMaxIdleConns(runtime.NumCPU() + 1)

	ctx := context.Background()
	db, err := sqlite.New(pool)
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	service, err := symbols.NewService(db.Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	folder, err := service.CreateFolder(ctx, "Valves")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(folder.ID, folder.Name)
	// Output: 1 Valves
}
