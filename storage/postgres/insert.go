package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"example.com/canvasback/symbols"
)

const (
	maxGroup     = 64      // insertions in a statement
	maxGroupData = 1 << 20 // bytes of their data, less the last one
)

// inserter inserts symbols, one statement after the other in each folder. Insertions
// that arrive during a statement share the next one: they would wait for the lock on
// the folder anyway, and the triggers run once for each statement.
type inserter struct {
	mu     sync.Mutex
	queues map[queueKey][]*insertGroup // of the folders with a running goroutine
}

// queueKey is a folder as a tenant sees it.
type queueKey struct {
	tenant   string
	folderID int64
}

// insertGroup is one statement.
type insertGroup struct {
	ctx     context.Context // ends when no caller waits for the group
	cancel  context.CancelFunc
	started bool
	waiting int // callers
	size    int // bytes of data
	list    []*insertion
	done    chan struct{}
}

// insertion is a symbol to insert. The statement sets its id and version, or err.
type insertion struct {
	symbols.Symbol
	tenant string
	err    error
}

// insert inserts a symbol. If ctx ends during the statement, which others may share,
// the symbol can be inserted nevertheless.
func (in *inserter) insert(ctx context.Context, db *database, own *insertion) (symbols.Symbol, error) {
	group := in.join(ctx, db, own)
	select {
	case <-group.done:
		return own.Symbol, own.err
	case <-ctx.Done():
		in.leave(group, own)
		return symbols.Symbol{}, ctx.Err()
	}
}

// join adds an insertion to the last group in the queue of its folder.
func (in *inserter) join(ctx context.Context, db *database, own *insertion) *insertGroup {
	in.mu.Lock()
	defer in.mu.Unlock()
	key := queueKey{own.tenant, own.FolderID}
	queue, running := in.queues[key]
	if n := len(queue); n == 0 || !queue[n-1].isOpen() {
		group := &insertGroup{done: make(chan struct{})}
		group.ctx, group.cancel = context.WithCancel(context.WithoutCancel(ctx))
		queue = append(queue, group)
	}
	group := queue[len(queue)-1]
	group.list = append(group.list, own)
	group.size += len(own.Data)
	group.waiting++
	if in.queues == nil {
		in.queues = make(map[queueKey][]*insertGroup)
	}
	in.queues[key] = queue
	if !running {
		go in.run(db, key)
	}
	return group
}

// isOpen reports whether insertions can join the group. It is canceled when all of its
// callers have left.
func (g *insertGroup) isOpen() bool {
	return g.waiting > 0 && len(g.list) < maxGroup && g.size < maxGroupData
}

// leave withdraws an insertion, if its group has not started.
func (in *inserter) leave(group *insertGroup, own *insertion) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !group.started {
		group.list = slices.DeleteFunc(group.list, func(i *insertion) bool { return i == own })
		group.size -= len(own.Data)
	}
	if group.waiting--; group.waiting == 0 {
		group.cancel()
	}
}

// run runs the groups of a folder until its queue is empty.
func (in *inserter) run(db *database, key queueKey) {
	for group := in.next(key); group != nil; group = in.next(key) {
		group.run(db)
	}
}

func (in *inserter) next(key queueKey) *insertGroup {
	in.mu.Lock()
	defer in.mu.Unlock()
	queue := in.queues[key]
	if len(queue) == 0 {
		delete(in.queues, key)
		return nil
	}
	in.queues[key] = queue[1:]
	queue[0].started = true
	return queue[0]
}

// run inserts the group in one statement. If the server rejects a symbol, it inserts
// each by itself, so that none has the error of another.
func (g *insertGroup) run(db *database) {
	defer close(g.done)
	defer g.cancel()
	defer func() {
		if p := recover(); p != nil { // of a tracer of the pool
			g.fail(fmt.Errorf("postgres: panic during an insertion: %v", p))
		}
	}()
	if len(g.list) == 0 {
		return
	}
	err := db.insertSymbols(g.ctx, g.list)
	if len(g.list) > 1 && rejectsRow(err) {
		for i := range g.list {
			g.list[i].err = db.insertSymbols(g.ctx, g.list[i:i+1])
		}
		return
	}
	g.fail(err)
}

// rejectsRow reports whether the server has rejected the content of a row. After other
// errors the transaction may be committed.
func rejectsRow(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{"22", "23", "54"}, pgErr.Code[:min(2, len(pgErr.Code))]) // classes of SQLSTATE
}

// fail sets the errors of all insertions.
func (g *insertGroup) fail(err error) {
	for _, i := range g.list {
		i.err = err
	}
}

// insertSymbols inserts symbols of one folder in one statement.
func (db *database) insertSymbols(ctx context.Context, list []*insertion) error {
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
			WHERE id = $1 AND tenant = $10
			FOR NO KEY UPDATE
		)
		INSERT INTO canvasback_symbols (folder_id, name, type, data, `+detailColumns+`)
		SELECT folder.id, name, type, data, `+detailColumns+`
		FROM folder
		CROSS JOIN unnest(
			$2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::timestamptz[], $9::bigint[]
		) WITH ORDINALITY AS given (name, type, data, `+detailColumns+`, position)
		ORDER BY given.position
		RETURNING id, version`,
		list[0].FolderID, names, types, data, tags, metas, createdAt, updatedAt, updatedBy, list[0].tenant,
	)
	if err != nil {
		return err
	}
	if len(result.Rows) == 0 {
		return symbols.ErrFolderNotFound
	}
	for i, row := range result.Rows {
		if err := row.Scan(&list[i].ID, &list[i].Version); err != nil {
			return err
		}
	}
	return nil
}
