package sqlite

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"example.com/canvasback/storage/internal/sqlstore"
)

// dialect translates statements of package sqlstore.
var dialect = strings.NewReplacer(
	"$", "?",

	// SQLite limits the number of parameters, so a list is one array; see arguments.
	"digest = ANY (", "digest IN (SELECT unhex(value) FROM json_each(",
	"= ANY (", "IN (SELECT value FROM json_each(",
	"::bytea[])", "))",
	"::bigint[])", "))",

	// A transaction that writes is the only one.
	"FOR UPDATE SKIP LOCKED", "",
	"FOR UPDATE", "",
	"FOR NO KEY UPDATE", "",

	"OVERRIDING SYSTEM VALUE", "",
	"bit_xor(version)", "version", // a segment has one

	// A trigger would have to write the row again.
	"SET folder_id = ", "SET version = abs(random() / 2) + 1, folder_id = ",
	"SET data = ", "SET version = abs(random() / 2) + 1, data = ",

	// The names of folders and the source URLs of tenants have a prefix.
	"(tenant, name)", "(name)",
	"strpos(source_url,", "instr(substr(source_url, iif(tenant = '', 1, "+strconv.Itoa(sqlstore.TenantPrefixSize+1)+")),",

	// Tags are behind the data, which SQLite would have to read. So they are read from an
	// index.
	"coalesce(s.tags, '')", `coalesce((
		SELECT t.tags
		FROM canvasback_symbols AS t INDEXED BY canvasback_symbols_tags_idx
		WHERE t.id = s.id AND t.tags <> ''
	), '')`,

	// Symbols of before have the time of the migration.
	"s.created_at", "coalesce(s.created_at, (SELECT migrated_at FROM canvasback_symbol_details))",
	"s.updated_at", "coalesce(s.updated_at, (SELECT migrated_at FROM canvasback_symbol_details))",
)

// arguments converts arguments to values of columns, and lists to arrays for json_each.
// Times are Unix milliseconds.
func arguments(args []any) []any {
	for i, arg := range args {
		switch arg := arg.(type) {
		case time.Time:
			args[i] = arg.UnixMilli()
		case *time.Time:
			if args[i] = nil; arg != nil {
				args[i] = arg.UnixMilli()
			}
		case []int64, []string:
			args[i] = array(arg)
		case [][]byte:
			texts := make([]string, len(arg))
			for i, digest := range arg {
				texts[i] = hex.EncodeToString(digest)
			}
			args[i] = array(texts)
		}
	}
	return args
}

func array(list any) string {
	text, _ := json.Marshal(list) // numbers and strings always encode
	return string(text)
}
