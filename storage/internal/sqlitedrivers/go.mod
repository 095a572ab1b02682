module example.com/canvasback/storage/internal/sqlitedrivers

go 1.26.0

require (
	example.com/canvasback v0.0.0
	github.com/mattn/go-sqlite3 v1.14.53
	github.com/ncruces/go-sqlite3 v0.36.0
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.4.35401 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace example.com/canvasback => ../../..
