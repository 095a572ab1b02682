package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"example.com/canvasback/storage/postgres/internal/fence"
	"example.com/canvasback/symbols"
)

const (
	maxGroup     = 64      // insertions in a statement
	maxGroupData = 1 << 20 // bytes of their data, less the last one
)

// inserter inserts symbols. Those that arrive during a statement share the next one, so
// that they share its commit, and triggers run once. A tenant has a queue for all folders.
// If another transaction has locked a folder, those who insert into it wait for the lock
// in a queue of its own. If it has inserted symbols itself, one in eight of the others waits.
type inserter struct {
	mu     sync.Mutex
	queues map[queueKey][]*insertion // each with a running goroutine
}

// queueKey is a tenant, or one of its folders.
type queueKey struct {
	tenant   string
	isFolder bool
	folderID int64
}

// insertion is a symbol to insert. Its queue sets the id and the version, or err, and
// closes done.
type insertion struct {
	*symbols.Symbol
	ctx  context.Context
	err  error
	done chan struct{}
}

// insert inserts a symbol. If ctx ends during the statement, which others may share,
// the symbol can be inserted nevertheless.
func (db *database) insert(ctx context.Context, tenant string, symbol symbols.Symbol) (symbols.Symbol, error) {
	own := &insertion{Symbol: &symbol, ctx: ctx, done: make(chan struct{})}
	db.inserter.add(db, queueKey{tenant: tenant}, own)
	select {
	case <-own.done:
		return symbol, own.err
	case <-ctx.Done():
		return symbols.Symbol{}, ctx.Err()
	}
}

// add adds an insertion to the queue of its folder, if there is one, or else to the given
// one.
func (in *inserter) add(db *database, key queueKey, i *insertion) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if own := (queueKey{key.tenant, true, i.FolderID}); in.queues[own] != nil {
		key = own
	}
	if in.queues[key] == nil {
		go in.run(db, key)
	}
	in.queues[key] = append(in.queues[key], i)
}

// run inserts what is in a queue until it is empty.
func (in *inserter) run(db *database, key queueKey) {
	for list := in.next(key); len(list) > 0; list = in.next(key) {
		db.insertGroup(key, list)
		runtime.Gosched() // callers that insert again join the next group
	}
}

// next removes the next insertions of a queue, less those that nobody waits for. It removes
// the queue if there are none.
func (in *inserter) next(key queueKey) (list []*insertion) {
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
func (db *database) insertGroup(key queueKey, list []*insertion) {
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
	inserted, err := db.insertSymbols(ctx, key, list)
	pgErr, ok := errors.AsType[*pgconn.PgError](err) // unless it rejects a row, the transaction may be committed
	if len(list) > 1 && ok && slices.Contains([]string{"22", "23", "54"}, pgErr.Code[:min(2, len(pgErr.Code))]) {
		for i := range list {
			db.insertGroup(key, list[i:i+1])
		}
		return
	}
	for n, i := range list {
		if err == nil && !inserted[n] {
			if !key.isFolder {
				db.inserter.add(db, queueKey{key.tenant, true, i.FolderID}, i)
				continue
			}
			i.err = symbols.ErrFolderNotFound
		} else {
			i.err = err
		}
		close(i.done)
	}
}

// insertSymbols inserts symbols of a tenant in one statement, and reports which of them.
// Unless the key is a folder, those in folders that are locked are left out, besides those in
// folders that do not exist. It returns a panic of a tracer of the pool as an error.
func (db *database) insertSymbols(ctx context.Context, key queueKey, list []*insertion) (inserted []bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("postgres: panic during an insertion: %v", p)
		}
	}()
	lock := "FOR NO KEY UPDATE"
	if !key.isFolder {
		lock += " SKIP LOCKED"
	}
	var result fence.Result
	if len(list) == 1 {
		result, err = db.insertOne(ctx, key.tenant, lock, list[0].Symbol)
	} else {
		result, err = db.insertSeveral(ctx, key.tenant, lock, list)
	}
	if err != nil {
		return nil, err
	}
	inserted = make([]bool, len(list))
	n := 0 // in the list
	for _, row := range result.Rows {
		var symbol symbols.Symbol
		if err := row.Scan(&symbol.FolderID, &symbol.ID, &symbol.Version); err != nil {
			return nil, err
		}
		for list[n].FolderID != symbol.FolderID {
			n++
		}
		list[n].ID, list[n].Version, inserted[n] = symbol.ID, symbol.Version, true
		n++
	}
	return inserted, nil
}

// insertOne inserts a symbol in three quarters of the time of insertSeveral, whose plan has
// twice the nodes. With many folders PostgreSQL would also plan that one for each symbol,
// because a generic plan expects ten elements in each array.
func (db *database) insertOne(ctx context.Context, tenant, lock string, s *symbols.Symbol) (fence.Result, error) {
	return db.write(ctx, `
		WITH folder AS (
			SELECT id
			FROM canvasback_folders
			WHERE id = $1 AND tenant = $10
			`+lock+`
		)
		INSERT INTO canvasback_symbols (folder_id, name, type, data, tags, meta, created_at, updated_at, updated_by)
		SELECT id, $2, $3, $4, $5, $6, $7, $8, $9
		FROM folder
		RETURNING folder_id, id, version`,
		s.FolderID, s.Name, s.Type, s.Data, s.Tags.String(), s.Meta, s.CreatedAt, s.UpdatedAt, s.UpdatedBy, tenant,
	)
}

// insertSeveral inserts symbols. Ids are assigned and rows returned in the order of the
// inner SELECT.
func (db *database) insertSeveral(ctx context.Context, tenant, lock string, list []*insertion) (fence.Result, error) {
	var folders, updatedBy []int64
	var names, types, data, tags, metas []string
	var createdAt, updatedAt []time.Time
	for _, s := range list {
		folders, names, types, data = append(folders, s.FolderID), append(names, s.Name), append(types, s.Type), append(data, s.Data)
		tags, metas = append(tags, s.Tags.String()), append(metas, s.Meta)
		createdAt, updatedAt, updatedBy = append(createdAt, s.CreatedAt), append(updatedAt, s.UpdatedAt), append(updatedBy, s.UpdatedBy)
	}
	return db.write(ctx, `
		WITH folder AS (
			SELECT id
			FROM canvasback_folders
			WHERE id = ANY ($1::bigint[]) AND tenant = $10
			ORDER BY id
			`+lock+`
		)
		INSERT INTO canvasback_symbols (folder_id, name, type, data, tags, meta, created_at, updated_at, updated_by)
		SELECT folder_id, name, type, data, tags, meta, created_at, updated_at, updated_by
		FROM unnest(
			$1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::timestamptz[], $9::bigint[]
		) WITH ORDINALITY AS given (folder_id, name, type, data, tags, meta, created_at, updated_at, updated_by, position)
		JOIN folder ON folder.id = given.folder_id
		ORDER BY given.position
		RETURNING folder_id, id, version`,
		folders, names, types, data, tags, metas, createdAt, updatedAt, updatedBy, tenant,
	)
}
