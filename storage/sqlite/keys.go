package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/paging"
)

type keyStore struct{ db *database }

var _ keys.Store = keyStore{}

// keyColumns are the columns that scanKey reads.
const keyColumns = `
	id, name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
	expires_at, last_used_at, use_count, created_at, updated_at`

// keyRow is a row of keyColumns. It can be scanned repeatedly.
type keyRow struct {
	key    keys.Key
	scopes string
}

func (r *keyRow) dest() []any {
	k := &r.key
	return []any{
		&k.ID, &k.Name, &k.Prefix, &k.Mask, &k.Owner, &r.scopes,
		(*digest)(&k.Digest), (*digest)(&k.PreviousDigest), (*millis)(&k.PreviousExpiresAt), &k.Active,
		(*millis)(&k.ExpiresAt), (*millis)(&k.LastUsedAt), &k.UseCount, (*millis)(&k.CreatedAt), (*millis)(&k.UpdatedAt),
	}
}

func (r *keyRow) value() keys.Key {
	r.key.Scopes = keys.ParseScopes(r.scopes)
	return r.key
}

func scanKey(row *sql.Row) (keys.Key, error) {
	var r keyRow
	err := row.Scan(r.dest()...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return keys.Key{}, keys.ErrNotFound
	case err != nil:
		return keys.Key{}, err
	}
	return r.value(), nil
}

// digest and millis implement [sql.Scanner]. NULL is the zero value.
type (
	digest keys.Digest
	millis time.Time
)

func (d *digest) Scan(column any) error {
	value, err := columnAs[[]byte](column)
	*d = digest{}
	copy(d[:], value)
	return err
}

func (m *millis) Scan(column any) error {
	value, err := columnAs[int64](column)
	*m = millis{}
	if column != nil {
		*m = millis(time.UnixMilli(value).UTC())
	}
	return err
}

// columnAs returns the value of a column, or zero if it is NULL.
func columnAs[T any](column any) (value T, err error) {
	value, ok := column.(T)
	if !ok && column != nil {
		err = fmt.Errorf("sqlite: column of type %T, want %T", column, value)
	}
	return value, err
}

// previousDigest returns the column value of PreviousDigest: nil for zero.
func previousDigest(key keys.Key) []byte {
	if key.PreviousDigest == (keys.Digest{}) {
		return nil
	}
	return key.PreviousDigest[:]
}

func (s keyStore) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	err := s.db.write(ctx, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, `
			INSERT INTO canvasback_keys (
				name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
				expires_at, last_used_at, created_at, updated_at
			)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			RETURNING id`,
			key.Name, key.Prefix, key.Mask, key.Owner, key.Scopes.String(),
			key.Digest[:], previousDigest(key), toMillis(key.PreviousExpiresAt), key.Active,
			toMillis(key.ExpiresAt), toMillis(key.LastUsedAt), toMillis(key.CreatedAt), toMillis(key.UpdatedAt),
		).Scan(&key.ID)
	})
	if err != nil {
		return keys.Key{}, err
	}
	key.UseCount = 0
	return key, nil
}

func (s keyStore) Get(ctx context.Context, id int64) (keys.Key, error) {
	return scanKey(s.db.queryRow(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE id = ?`,
		id,
	))
}

func (s keyStore) List(ctx context.Context, filter keys.Filter, r keys.Range) (keys.Page, error) {
	where, args := "id > ?", []any{r.After}
	if filter.Owner != nil {
		where, args = where+" AND owner = ? AND owner <> ''", append(args, *filter.Owner)
	}
	rows, err := s.db.query(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE `+where+`
		ORDER BY id
		LIMIT ? + 0`,
		append(args, paging.FetchLimit(r.Limit))...,
	)
	if err != nil {
		return keys.Page{}, err
	}
	defer rows.Close()
	list := make([]keys.Key, 0, max(0, min(r.Limit, 1024)+1))
	var row keyRow
	dest := row.dest()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return keys.Page{}, err
		}
		list = append(list, row.value())
	}
	if err := rows.Err(); err != nil {
		return keys.Page{}, err
	}
	var page keys.Page
	page.Keys, page.More = paging.Cut(list, r.Limit)
	return page, nil
}

func (s keyStore) Update(ctx context.Context, id int64, change func(*keys.Key) error) (keys.Key, error) {
	var key keys.Key
	err := s.db.write(ctx, func(conn *sql.Conn) error {
		stored, err := scanKey(conn.QueryRowContext(ctx, `
			SELECT `+keyColumns+`
			FROM canvasback_keys
			WHERE id = ?`,
			id,
		))
		if err != nil {
			return err
		}
		key = stored
		if err := change(&key); err != nil {
			return err
		}
		key.ID, key.CreatedAt = stored.ID, stored.CreatedAt
		key.LastUsedAt, key.UseCount = stored.LastUsedAt, stored.UseCount
		_, err = conn.ExecContext(ctx, `
			UPDATE canvasback_keys
			SET
				name = ?, prefix = ?, mask = ?, owner = ?, scopes = ?, digest = ?,
				previous_digest = ?, previous_expires_at = ?, active = ?, expires_at = ?, updated_at = ?
			WHERE id = ?`,
			key.Name, key.Prefix, key.Mask, key.Owner, key.Scopes.String(), key.Digest[:],
			previousDigest(key), toMillis(key.PreviousExpiresAt), key.Active, toMillis(key.ExpiresAt), toMillis(key.UpdatedAt),
			id,
		)
		return err
	})
	if err != nil {
		return keys.Key{}, err
	}
	return key, nil
}

func (s keyStore) Delete(ctx context.Context, id int64) (key keys.Key, err error) {
	err = s.db.write(ctx, func(conn *sql.Conn) error {
		key, err = scanKey(conn.QueryRowContext(ctx, `
			DELETE FROM canvasback_keys
			WHERE id = ?
			RETURNING `+keyColumns,
			id,
		))
		return err
	})
	return key, err
}

func (s keyStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	return scanKey(s.db.queryRow(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE digest = ?1 OR previous_digest = ?1`,
		digest[:],
	))
}

func (s keyStore) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		touch, err := conn.PrepareContext(ctx, `
			UPDATE canvasback_keys
			SET
				last_used_at = CASE WHEN last_used_at BETWEEN ?1 AND ?2 THEN last_used_at ELSE ?1 END,
				use_count = use_count + ?3
			WHERE id = ?4 AND created_at = ?5 AND created_at <= ?1`)
		if err != nil {
			return err
		}
		defer touch.Close()
		latest := toMillis(now.Add(keys.MaxClockSkew))
		for _, use := range uses {
			_, err := touch.ExecContext(ctx, toMillis(use.At), latest, use.Count, use.ID, toMillis(use.CreatedAt))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s keyStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	rows, err := s.db.query(ctx, `
		SELECT current.epoch, current.number - known.number, change.number IS NOT NULL, change.digest
		FROM (
			SELECT epoch, number
			FROM canvasback_key_epoch
			LEFT JOIN (
				SELECT epoch, number
				FROM canvasback_key_changes
				ORDER BY number DESC
				LIMIT 1
			) USING (epoch)
		) AS current
		LEFT JOIN (
			SELECT max(number) AS number
			FROM canvasback_key_changes
			WHERE epoch = ?1
		) AS known ON ?1 <= current.epoch
		LEFT JOIN canvasback_key_changes AS change
			ON change.number > known.number AND current.number IS NOT NULL
		ORDER BY change.number`,
		since,
	)
	if err != nil {
		return keys.Changes{}, err
	}
	defer rows.Close()
	err = sql.ErrNoRows // there is no epoch
	var (
		changes keys.Changes
		length  sql.NullInt64 // of the log after since; NULL if the log does not contain it
		found   int64
	)
	for rows.Next() {
		var logged bool
		var digest []byte
		if err = rows.Scan(&changes.Epoch, &length, &logged, &digest); err != nil {
			return keys.Changes{}, err
		}
		if logged {
			found++
		}
		if digest != nil {
			changes.Digests = append(changes.Digests, keys.Digest(digest))
		}
	}
	if err = cmp.Or(rows.Err(), err); err != nil {
		return keys.Changes{}, err
	}
	changes.Complete = length.Valid && length.Int64 == found
	if !changes.Complete {
		changes.Digests = nil
	}
	return changes, nil
}

func (keyStore) Shared() bool { return true }
