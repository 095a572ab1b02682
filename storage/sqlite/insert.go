package sqlite

import (
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
	err  error
	done chan struct{}
}

// insert inserts a symbol. Insertions that wait for the writer join the next one, so
// that they share a commit. They return after it.
func (db *database) insert(ctx context.Context, symbol *symbols.Symbol) error {
	own := &insertion{symbol, errors.New("sqlite: panic during an insertion"), make(chan struct{})}
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

// insertGroup inserts a group in one transaction. If one insertion fails, it inserts
// each by itself, so that none has the error of another. If the commit fails, all have
// its error: it may have taken effect, and must not be repeated.
func (db *database) insertGroup(ctx context.Context, group []*insertion) {
	if len(group) > 1 {
		retry, err := db.insertTogether(ctx, group)
		if !retry {
			for _, i := range group {
				i.err = err
			}
			return
		}
	}
	for _, i := range group {
		i.err = db.insertAlone(ctx, i.Symbol)
	}
}

func (db *database) insertTogether(ctx context.Context, group []*insertion) (retry bool, err error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	began := false
	committing, err := transact(ctx, conn, func(conn *sql.Conn) error {
		began = true
		statement, err := conn.PrepareContext(ctx, insertSymbol)
		if err != nil {
			return err
		}
		defer statement.Close()
		for _, i := range group {
			if err := execInsert(ctx, statement, i.Symbol); err != nil {
				return err // SQLite may have ended the transaction
			}
		}
		return nil
	})
	return began && !committing && err != nil, err
}

// insertAlone needs no explicit transaction, which takes longer than the insertion.
func (db *database) insertAlone(ctx context.Context, symbol *symbols.Symbol) error {
	statement, err := db.prepare(ctx, insertSymbol) //nolint:sqlclosecheck // kept for later calls
	if err == nil {
		err = execInsert(ctx, statement, symbol)
	}
	if err == nil {
		return nil
	}
	if _, missing := (symbolStore{db}).FolderVersion(ctx, symbol.FolderID); errors.Is(missing, symbols.ErrFolderNotFound) {
		return missing
	}
	return err
}

const insertSymbol = `
	INSERT INTO canvasback_symbols (folder_id, version, name, type, data)
	VALUES (?, ?, ?, ?, ?)`

// execInsert executes insertSymbol, and sets the id and the version. A statement with
// RETURNING takes 1.5 times as long.
func execInsert(ctx context.Context, statement *sql.Stmt, symbol *symbols.Symbol) error {
	symbol.Version = symbols.Version(1 + rand.Int64N(1<<62))
	result, err := statement.ExecContext(ctx,
		symbol.FolderID, symbol.Version, symbol.Name, symbol.Type, symbol.Data,
	)
	if err != nil {
		return err
	}
	symbol.ID, err = result.LastInsertId()
	return err
}
