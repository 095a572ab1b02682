package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/paging"
	"example.com/canvasback/storage/postgres/internal/fence"
)

type keyStore struct{ db *database }

var _ keys.Store = keyStore{}

// keyColumns are the columns that scanKey reads.
const keyColumns = `
	id, name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
	expires_at, last_used_at, use_count, created_at, updated_at`

// fencedKey are the columns of the table key, with id 0 if that is empty. They follow
// those of fence.Server.
const fencedKey = `
		, coalesce(id, 0), coalesce(name, ''), coalesce(prefix, ''), coalesce(mask, ''),
		coalesce(owner, ''), coalesce(scopes, ''),
		coalesce(digest, ''), previous_digest, previous_expires_at, coalesce(active, false),
		expires_at, last_used_at, coalesce(use_count, 0), created_at, updated_at
	FROM ` + fence.Server + `
	LEFT JOIN key ON true`

func scanKey(row pgx.Row) (keys.Key, error) {
	var (
		key                                                  keys.Key
		scopes                                               string
		digest, previous                                     []byte
		previousExpires, expires, lastUsed, created, updated *time.Time
	)
	err := row.Scan(
		&key.ID, &key.Name, &key.Prefix, &key.Mask, &key.Owner, &scopes, &digest, &previous, &previousExpires, &key.Active,
		&expires, &lastUsed, &key.UseCount, &created, &updated,
	)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && key.ID == 0 {
		return keys.Key{}, keys.ErrNotFound
	}
	if err != nil {
		return keys.Key{}, err
	}
	key.Scopes = keys.ParseScopes(scopes)
	key.Digest = keys.Digest(digest)
	if previous != nil {
		key.PreviousDigest = keys.Digest(previous)
	}
	key.PreviousExpiresAt = fromNullTime(previousExpires)
	key.ExpiresAt, key.LastUsedAt = fromNullTime(expires), fromNullTime(lastUsed)
	key.CreatedAt, key.UpdatedAt = fromNullTime(created), fromNullTime(updated)
	return key, nil
}

// previousDigest returns the column value of PreviousDigest: nil for zero.
func previousDigest(key keys.Key) []byte {
	if key.PreviousDigest == (keys.Digest{}) {
		return nil
	}
	return key.PreviousDigest[:]
}

func (s keyStore) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	err := s.db.write(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, s.db.sql(`
			INSERT INTO canvasback_keys (
				name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
				expires_at, last_used_at, created_at, updated_at
			)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
			RETURNING id`),
			key.Name, key.Prefix, key.Mask, key.Owner, key.Scopes.String(),
			key.Digest[:], previousDigest(key), nullTime(key.PreviousExpiresAt), key.Active,
			nullTime(key.ExpiresAt), nullTime(key.LastUsedAt), key.CreatedAt, key.UpdatedAt,
		).Scan(&key.ID)
	})
	if err != nil {
		return keys.Key{}, err
	}
	key.UseCount = 0
	return key, nil
}

func (s keyStore) Get(ctx context.Context, id int64) (keys.Key, error) {
	return scanKey(s.db.readRow(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE id = $1`,
		id,
	))
}

func (s keyStore) List(ctx context.Context, filter keys.Filter, r keys.Range) (keys.Page, error) {
	where, args := "id > $1", []any{r.After, paging.FetchLimit(r.Limit)}
	if filter.Owner != nil {
		where, args = where+" AND owner = $3 AND owner <> ''", append(args, *filter.Owner)
	}
	list, err := readRows(ctx, s.db, func(row pgx.CollectableRow) (keys.Key, error) { return scanKey(row) }, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE `+where+`
		ORDER BY id
		LIMIT $2::bigint`,
		args...,
	)
	if err != nil {
		return keys.Page{}, err
	}
	var page keys.Page
	page.Keys, page.More = paging.Cut(list, r.Limit)
	return page, nil
}

func (s keyStore) Update(ctx context.Context, id int64, change func(*keys.Key) error) (keys.Key, error) {
	var (
		key      keys.Key
		fenced   bool
		rejected error // by change, or because there is no such key
	)
	err := s.db.transactThen(ctx, func(tx pgx.Tx) (err error) {
		key, err = scanKey(row(func(dest ...any) error {
			return tx.QueryRow(ctx, s.db.sql(`
				WITH key AS (
					SELECT `+keyColumns+`
					FROM canvasback_keys
					WHERE id = $2
					FOR UPDATE
				)
				SELECT server.fenced`+fencedKey),
				s.db.fence.Parameter(), id,
			).Scan(append([]any{&fenced}, dest...)...)
		}))
		if err == nil {
			err = change(&key)
		} else if !errors.Is(err, keys.ErrNotFound) {
			return err
		}
		// The state that was read may have been committed without the standby.
		if rejected = err; rejected != nil {
			return nil //nolint:nilerr // commits without a change
		}
		key, err = scanKey(tx.QueryRow(ctx, s.db.sql(`
			UPDATE canvasback_keys
			SET
				name = $2, prefix = $3, mask = $4, owner = $5, scopes = $6, digest = $7,
				previous_digest = $8, previous_expires_at = $9, active = $10, expires_at = $11, updated_at = $12
			WHERE id = $1
			RETURNING `+keyColumns),
			id,
			key.Name, key.Prefix, key.Mask, key.Owner, key.Scopes.String(), key.Digest[:],
			previousDigest(key), nullTime(key.PreviousExpiresAt), key.Active, nullTime(key.ExpiresAt), key.UpdatedAt,
		))
		return err
	}, func(conn *pgx.Conn, tx pgx.Tx) error {
		switch {
		case fenced:
			return s.db.fence.Exec(ctx, conn, fence.Commit)
		case rejected != nil:
			return tx.Rollback(ctx)
		default:
			return tx.Commit(ctx)
		}
	})
	if err := cmp.Or(err, rejected); err != nil {
		return keys.Key{}, err
	}
	return key, nil
}

func (s keyStore) Delete(ctx context.Context, id int64) (keys.Key, error) {
	return scanKey(s.db.writeFenced(ctx, `
		WITH key AS (
			DELETE FROM canvasback_keys
			WHERE id = $2
			RETURNING `+keyColumns+`
		)
		SELECT `+fence.Columns+fencedKey,
		id,
	))
}

func (s keyStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	return scanKey(s.db.readFenced(ctx, `
		WITH key AS (
			SELECT `+keyColumns+`
			FROM canvasback_keys
			WHERE digest = $2 OR previous_digest = $2
		)
		SELECT `+fence.Columns+fencedKey,
		digest[:],
	))
}

func (s keyStore) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	if len(uses) == 0 {
		return nil
	}
	ids, counts := make([]int64, len(uses)), make([]int64, len(uses))
	created, times := make([]time.Time, len(uses)), make([]time.Time, len(uses))
	for i, use := range uses {
		ids[i], created[i], times[i], counts[i] = use.ID, use.CreatedAt, use.At, use.Count
	}
	// Rows are locked by ascending id, so concurrent calls cannot deadlock.
	_, err := s.db.exec(ctx, `
		UPDATE canvasback_keys AS key
		SET
			last_used_at = CASE WHEN key.last_used_at BETWEEN used.at AND $5 THEN key.last_used_at ELSE used.at END,
			use_count = key.use_count + used.count
		FROM (
			SELECT key.id, used.at, used.count
			FROM canvasback_keys AS key
			JOIN unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::bigint[]) AS used (id, created_at, at, count)
				USING (id, created_at)
			WHERE key.created_at <= used.at
			ORDER BY key.id
			FOR NO KEY UPDATE OF key
		) AS used
		WHERE key.id = used.id`,
		ids, created, times, counts, now.Add(keys.MaxClockSkew),
	)
	return err
}

func (s keyStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	var (
		epoch   *int64 // nil if there is none
		length  *int64 // of the log after since; nil if the log does not contain it
		digests [][]byte
	)
	// The epoch includes the OID of its table. A restore in place can return to the epoch
	// that a process knows, after the process has cached a later change, but creates
	// another table.
	//
	// The primary key finds the last row of an epoch at once; max(number) would read
	// all of them, or scan the numbers. Without LIMIT, the cost estimated from default
	// statistics would enable JIT compilation.
	err := s.db.readFenced(ctx, `
		WITH
			last AS (
				SELECT epoch, number, tableoid::bigint AS relation
				FROM canvasback_key_epoch
				LIMIT 1
			),
			known AS (
				SELECT epoch, number
				FROM canvasback_key_changes
				WHERE epoch <= $2 - (SELECT relation FROM last)
				ORDER BY epoch DESC, number DESC
				LIMIT 1
			)
		SELECT
			`+fence.Columns+`,
			last.epoch + last.relation,
			last.number - known.number,
			CASE WHEN known.number IS NOT NULL THEN ARRAY (
				SELECT digest
				FROM canvasback_key_changes
				WHERE number > known.number
				ORDER BY number
			) END
		FROM `+fence.Server+`
		LEFT JOIN last ON true
		LEFT JOIN known ON known.epoch = $2 - last.relation AND known.epoch <= last.epoch`,
		max(since, 0), // epochs are positive
	).Scan(&epoch, &length, &digests)
	if err != nil {
		return keys.Changes{}, err
	}
	if epoch == nil {
		return keys.Changes{}, errors.New("postgres: there is no epoch")
	}
	changes := keys.Changes{Epoch: *epoch, Complete: length != nil && *length == int64(len(digests))}
	if !changes.Complete {
		return changes, nil
	}
	for _, digest := range digests {
		if digest != nil {
			changes.Digests = append(changes.Digests, keys.Digest(digest))
		}
	}
	return changes, nil
}

func (keyStore) Shared() bool { return true }

// nullTime returns the column value of t: nil for the zero time.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// fromNullTime reverses nullTime.
func fromNullTime(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
