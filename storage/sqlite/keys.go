package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"example.com/canvasback/keys"
)

type keyStore struct{ db *database }

var _ keys.Store = keyStore{}

// keyColumns are the columns that scanKey reads.
const keyColumns = `
	id, name, prefix, mask, digest, active,
	expires_at, last_used_at, created_at, updated_at`

func scanKey(scan func(...any) error) (keys.Key, error) {
	var (
		key                                 keys.Key
		digest                              []byte
		expires, lastUsed, created, updated sql.NullInt64
	)
	err := scan(
		&key.ID, &key.Name, &key.Prefix, &key.Mask, &digest, &key.Active,
		&expires, &lastUsed, &created, &updated,
	)
	if errors.Is(err, sql.ErrNoRows) {
		return keys.Key{}, keys.ErrNotFound
	}
	if err != nil {
		return keys.Key{}, err
	}
	key.Digest = keys.Digest(digest)
	key.ExpiresAt, key.LastUsedAt = fromMillis(expires), fromMillis(lastUsed)
	key.CreatedAt, key.UpdatedAt = fromMillis(created), fromMillis(updated)
	return key, nil
}

func (s keyStore) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	err := s.db.write(ctx, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, `
			INSERT INTO canvasback_keys (
				name, prefix, mask, digest, active,
				expires_at, last_used_at, created_at, updated_at
			)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			RETURNING id`,
			key.Name, key.Prefix, key.Mask, key.Digest[:], key.Active,
			toMillis(key.ExpiresAt), toMillis(key.LastUsedAt), toMillis(key.CreatedAt), toMillis(key.UpdatedAt),
		).Scan(&key.ID)
	})
	if err != nil {
		return keys.Key{}, err
	}
	return key, nil
}

func (s keyStore) Get(ctx context.Context, id int64) (keys.Key, error) {
	return scanKey(s.db.queryRow(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE id = ?`,
		id,
	).Scan)
}

func (s keyStore) List(ctx context.Context) ([]keys.Key, error) {
	rows, err := s.db.query(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []keys.Key
	for rows.Next() {
		key, err := scanKey(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, key)
	}
	return list, rows.Err()
}

func (s keyStore) Update(ctx context.Context, id int64, change func(*keys.Key) error) (keys.Key, error) {
	var key keys.Key
	err := s.db.write(ctx, func(conn *sql.Conn) error {
		stored, err := scanKey(conn.QueryRowContext(ctx, `
			SELECT `+keyColumns+`
			FROM canvasback_keys
			WHERE id = ?`,
			id,
		).Scan)
		if err != nil {
			return err
		}
		key = stored
		if err := change(&key); err != nil {
			return err
		}
		key.ID, key.CreatedAt, key.LastUsedAt = stored.ID, stored.CreatedAt, stored.LastUsedAt
		_, err = conn.ExecContext(ctx, `
			UPDATE canvasback_keys
			SET name = ?, prefix = ?, mask = ?, digest = ?, active = ?, expires_at = ?, updated_at = ?
			WHERE id = ?`,
			key.Name, key.Prefix, key.Mask, key.Digest[:], key.Active, toMillis(key.ExpiresAt), toMillis(key.UpdatedAt),
			id,
		)
		return err
	})
	if err != nil {
		return keys.Key{}, err
	}
	return key, nil
}

func (s keyStore) Delete(ctx context.Context, id int64) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, `
			DELETE FROM canvasback_keys
			WHERE id = ?`,
			id,
		)
		return requireRow(result, err, keys.ErrNotFound)
	})
}

func (s keyStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	return scanKey(s.db.queryRow(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE digest = ?`,
		digest[:],
	).Scan)
}

func (s keyStore) Touch(ctx context.Context, uses []keys.Use) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		touch, err := conn.PrepareContext(ctx, `
			UPDATE canvasback_keys
			SET last_used_at = ?1
			WHERE id = ?2 AND (last_used_at IS NULL OR last_used_at < ?1)`)
		if err != nil {
			return err
		}
		defer touch.Close()
		for _, use := range uses {
			if _, err := touch.ExecContext(ctx, toMillis(use.At), use.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s keyStore) Epoch(ctx context.Context) (int64, error) {
	var epoch int64
	err := s.db.queryRow(ctx, `
		SELECT epoch
		FROM canvasback_key_epoch`,
	).Scan(&epoch)
	return epoch, err
}

func (keyStore) Shared() bool { return true }
