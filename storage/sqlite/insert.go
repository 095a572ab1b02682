package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"runtime"

	"example.com/canvasback/symbols"
)

const (
	maxGroup     = 64      // insertions in a transaction
	maxGroupData = 1 << 20 // bytes of their data, less the last one
)

// insertion is a symbol to insert. The writer that inserts it sets the id, the
// version and err, and closes done.
type insertion struct {
	*symbols.Symbol
	tenant string
	err    error
	done   chan struct{}
}

// insert inserts a symbol. Insertions that wait for the writer join the next one, so
// that they share a commit. They return after it.
func (db *database) insert(ctx context.Context, own *insertion) error {
	own.done = make(chan struct{})
	select {
	case db.writeLock <- struct{}{}:
		defer func() { <-db.writeLock }()
	case db.joining <- own:
		<-own.done // soon: the writer ignores contexts
		return own.err
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	runtime.Gosched() // 1.4 times the speed: callers that have just returned can join
	group := db.gather(own)
	defer func() {
		for _, i := range group {
			close(i.done)
		}
	}()
	db.insertGroup(context.WithoutCancel(ctx), group)
	return own.err
}

// gather returns the insertion first and those that wait.
func (db *database) gather(first *insertion) []*insertion {
	group := []*insertion{first}
	for size := len(first.Data); len(group) < maxGroup && size < maxGroupData; {
		select {
		case next := <-db.joining:
			group, size = append(group, next), size+len(next.Data)
		default:
			return group
		}
	}
	return group
}

// insertGroup inserts a group in one transaction. An error other than that of a missing
// folder is one of the database, and that of all.
func (db *database) insertGroup(ctx context.Context, group []*insertion) {
	if len(group) == 1 { // needs no explicit transaction, which takes longer than the insertion
		statement, err := db.prepare(ctx, insertSymbol) //nolint:sqlclosecheck // kept for later calls
		if err == nil {
			err = execInsert(ctx, statement, group[0])
		}
		group[0].err = err
		return
	}
	err := errors.New("sqlite: panic during an insertion")
	defer func() {
		for _, i := range group {
			i.err = cmp.Or(err, i.err)
		}
	}()
	err = db.transact(ctx, func(tx transaction) error { return tx.insert(ctx, group) })
}

// insert inserts symbols. It returns no error of a missing folder, which is that of its
// insertion.
func (t transaction) insert(ctx context.Context, group []*insertion) error {
	statement, err := t.conn.PrepareContext(ctx, insertSymbol)
	if err != nil {
		return err
	}
	defer statement.Close()
	for _, i := range group {
		i.err = execInsert(ctx, statement, i)
		if i.err != nil && !errors.Is(i.err, symbols.ErrFolderNotFound) {
			return i.err // SQLite may have ended the transaction
		}
	}
	return nil
}

// insertSymbol inserts a symbol if the tenant has its folder: folder_id is not null. An
// INSERT with SELECT has two more copies of the data, in a temporary table for the triggers.
const insertSymbol = `
	INSERT OR IGNORE INTO canvasback_symbols (
		version, name, type, data, tags, meta, created_at, updated_at, updated_by, folder_id
	)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT id FROM canvasback_folders WHERE id = ? AND tenant = ?))`

// execInsert executes insertSymbol, and sets the id and the version. A statement with
// RETURNING takes 1.5 times as long.
func execInsert(ctx context.Context, statement *sql.Stmt, i *insertion) error {
	i.Version = symbols.Version(1 + rand.Int64N(1<<62))
	result, err := statement.ExecContext(ctx,
		i.Version, i.Name, i.Type, i.Data, i.Tags.String(), i.Meta,
		i.CreatedAt.UnixMilli(), i.UpdatedAt.UnixMilli(), i.UpdatedBy, i.FolderID, i.tenant,
	)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return cmp.Or(err, symbols.ErrFolderNotFound)
	}
	i.ID, err = result.LastInsertId()
	return err
}
