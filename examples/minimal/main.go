// Command minimal is the program of README.md with a database: a server with the complete
// API that keeps its data in a SQLite file.
package main

import (
	"context"
	"database/sql"
	"log"
	"net/http"
	"os"

	_ "modernc.org/sqlite"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

func main() {
	ctx := context.Background()
	db := open(ctx, "minimal.db")
	clientKeys := must(keys.NewService(db.Keys(), nil))
	go clientKeys.Run(ctx) // enables the cache and writes last-used times

	mux := http.NewServeMux()
	mux.Handle("/api/", httpapi.Handler(&httpapi.Options{
		Prefix:    "/api",
		AdminKeys: []string{"change me"},
		Keys:      clientKeys,
		Symbols:   must(symbols.NewService(db.Symbols(), nil)),
		Exports: must(exports.NewService(db.Exports(), &exports.Options{
			Openers: []exports.Opener{must(fetch.New(nil))}, // files of public HTTP servers
		})),
	}))

	log.Print("try: curl -X POST localhost:8089/api/admin/api-keys -H 'x-admin-key: change me'")
	server := &http.Server{Addr: "localhost:8089", Handler: mux}
	httpapi.ConfigureServer(server) // timeouts, and detection of slow clients
	log.Fatal(server.ListenAndServe())
}

func open(ctx context.Context, file string) *sqlite.DB {
	must(os.OpenFile(file, os.O_CREATE, 0o600)).Close() // it has the URLs of files
	const pragmas = "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db := must(sqlite.New(must(sql.Open("sqlite", "file:"+file+pragmas))))
	if err := db.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	return db
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
