package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"example.com/canvasback/symbols"
)

const (
	maxGroup     = 64      // insertions in a statement
	maxGroupData = 1 << 20 // bytes of their data, less the last one
)

// inserter inserts symbols. Those that arrive during a statement for their folder share the
// next one, so that they share its commit, and triggers run once. Insertions into one folder
// would wait for each other anyway, because each locks it.
type inserter struct {
	mu     sync.Mutex
	queues map[folderKey][]*insertion // each with a running goroutine
}

// folderKey is a folder as a tenant sees it.
type folderKey struct {
	tenant string
	id     int64
}

// insertion is a symbol to insert. Its queue sets the id and the version, or err, and
// closes done.
type insertion struct {
	symbols.Symbol
	ctx  context.Context
	err  error
	done chan struct{}
}

// insert inserts a symbol. If ctx ends during the statement, which others may share,
// the symbol can be inserted nevertheless.
func (db *database) insert(ctx context.Context, tenant string, symbol symbols.Symbol) (symbols.Symbol, error) {
	own := &insertion{Symbol: symbol, ctx: ctx, done: make(chan struct{})}
	db.inserter.add(db, folderKey{tenant, symbol.FolderID}, own)
	select {
	case <-own.done:
		return own.Symbol, own.err
	case <-ctx.Done():
		return symbols.Symbol{}, ctx.Err()
	}
}

func (in *inserter) add(db *database, key folderKey, i *insertion) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.queues[key] == nil {
		if in.queues == nil {
			in.queues = make(map[folderKey][]*insertion)
		}
		go in.run(db, key)
	}
	in.queues[key] = append(in.queues[key], i)
}

// run inserts what is in a queue until it is empty.
func (in *inserter) run(db *database, key folderKey) {
	for list := in.next(key); len(list) > 0; list = in.next(key) {
		db.insertGroup(key, list)
	}
}

// next removes the next insertions of a queue, less those that nobody waits for. It removes
// the queue if there are none.
func (in *inserter) next(key folderKey) (list []*insertion) {
	in.mu.Lock()
	defer in.mu.Unlock()
	queue, size := in.queues[key], 0
	for len(queue) > 0 && len(list) < maxGroup && size < maxGroupData {
		if queue[0].ctx.Err() == nil {
			list, size = append(list, queue[0]), size+len(queue[0].Data)
		}
		queue = queue[1:]
	}
	if in.queues[key] = queue; len(list) == 0 {
		delete(in.queues, key)
	}
	return list
}

// insertGroup inserts a group in one statement, which is canceled when nobody waits for it.
// If the server rejects a symbol, each is inserted by itself, so that none has the error
// of another.
func (db *database) insertGroup(key folderKey, list []*insertion) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(list[0].ctx))
	defer cancel()
	var left atomic.Int32
	for _, i := range list {
		defer context.AfterFunc(i.ctx, func() {
			if int(left.Add(1)) == len(list) {
				cancel()
			}
		})()
	}
	err := db.insertOrFail(ctx, key, list)
	if len(list) > 1 && rejectsRow(err) {
		for i := range list {
			db.insertGroup(key, list[i:i+1])
		}
		return
	}
	for _, i := range list {
		i.err = err
		close(i.done)
	}
}

// insertOrFail is insertSymbols, and returns a panic of a tracer of the pool as an error.
func (db *database) insertOrFail(ctx context.Context, key folderKey, list []*insertion) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("postgres: panic during an insertion: %v", p)
		}
	}()
	return db.insertSymbols(ctx, key, list)
}

// rejectsRow reports whether the server has rejected the content of a row. After other
// errors the transaction may be committed.
func rejectsRow(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{"22", "23", "54"}, pgErr.Code[:min(2, len(pgErr.Code))]) // classes of SQLSTATE
}

// insertSymbols inserts symbols into a folder in one statement.
func (db *database) insertSymbols(ctx context.Context, key folderKey, list []*insertion) error {
	var names, types, data, tags, metas []string
	var createdAt, updatedAt []time.Time
	var updatedBy []int64
	for _, s := range list {
		names, types, data = append(names, s.Name), append(types, s.Type), append(data, s.Data)
		tags, metas = append(tags, s.Tags.String()), append(metas, s.Meta)
		createdAt, updatedAt, updatedBy = append(createdAt, s.CreatedAt), append(updatedAt, s.UpdatedAt), append(updatedBy, s.UpdatedBy)
	}
	// Ids are assigned and rows returned in the order of the inner SELECT.
	result, err := db.write(ctx, `
		WITH folder AS (
			SELECT id
			FROM canvasback_folders
			WHERE id = $1 AND tenant = $2
			FOR NO KEY UPDATE
		)
		INSERT INTO canvasback_symbols (folder_id, name, type, data, tags, meta, created_at, updated_at, updated_by)
		SELECT folder.id, name, type, data, tags, meta, created_at, updated_at, updated_by
		FROM folder
		CROSS JOIN unnest(
			$3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::timestamptz[], $10::bigint[]
		) WITH ORDINALITY AS given (name, type, data, tags, meta, created_at, updated_at, updated_by, position)
		ORDER BY position
		RETURNING id, version`,
		key.id, key.tenant, names, types, data, tags, metas, createdAt, updatedAt, updatedBy,
	)
	if err == nil && len(result.Rows) == 0 {
		err = symbols.ErrFolderNotFound
	}
	for i := 0; err == nil && i < len(result.Rows); i++ {
		err = result.Rows[i].Scan(&list[i].ID, &list[i].Version)
	}
	return err
}
