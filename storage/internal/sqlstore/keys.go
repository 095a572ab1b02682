package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/keyrecord"
	"example.com/canvasback/storage/internal/paging"
)

// Keys has methods of a [keys.Store].
type Keys struct{ DB DB }

// selectKeys selects what scanKey reads.
const selectKeys = `
	SELECT id, name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
		expires_at, last_used_at, use_count, created_at, updated_at, public_key, previous_public_key
	FROM canvasback_keys`

func scanKey(row Row, k *keys.Key) error {
	var scopes string
	var public, previous []byte
	err := row.Scan(
		&k.ID, &k.Name, &k.Prefix, &k.Mask, &k.Owner, &scopes,
		(*digest)(&k.Digest), (*digest)(&k.PreviousDigest), (*Time)(&k.PreviousExpiresAt), &k.Active,
		(*Time)(&k.ExpiresAt), (*Time)(&k.LastUsedAt), &k.UseCount, (*Time)(&k.CreatedAt), (*Time)(&k.UpdatedAt),
		&public, &previous,
	)
	if err != nil {
		return orMissing(err, keys.ErrNotFound)
	}
	k.Scopes = keys.ParseScopes(scopes)
	k.PublicKey = publicKey(public, k.Digest)
	k.PreviousPublicKey = publicKey(previous, k.PreviousDigest)
	return nil
}

// PublicKeyColumn returns the column value of a public key: the digest of its raw key,
// then the public key, or nil for a zero one. A process of an earlier version changes a
// digest only, and the public key that it leaves behind then belongs to no raw key.
func PublicKeyColumn(digest keys.Digest, public keys.PublicKey) []byte {
	if public == (keys.PublicKey{}) {
		return nil
	}
	return slices.Concat(digest[:], public[:])
}

// publicKey returns the public key in the value of a column, or zero if it belongs to
// another digest.
func publicKey(column []byte, digest keys.Digest) (public keys.PublicKey) {
	if value, ok := bytes.CutPrefix(column, digest[:]); ok {
		copy(public[:], value)
	}
	return public
}

// keyArgs returns the arguments $1 to $13 of insertKey and updateKey.
func keyArgs(key keys.Key) []any {
	var previous []byte
	if key.PreviousDigest != (keys.Digest{}) {
		previous = key.PreviousDigest[:]
	}
	return []any{
		key.Name, key.Prefix, key.Mask, key.Owner, key.Scopes.String(), key.Digest[:],
		previous, nullTime(key.PreviousExpiresAt), key.Active, nullTime(key.ExpiresAt), nullTime(key.UpdatedAt),
		PublicKeyColumn(key.Digest, key.PublicKey), PublicKeyColumn(key.PreviousDigest, key.PreviousPublicKey),
	}
}

const insertKey = `
	INSERT INTO canvasback_keys (
		name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active, expires_at,
		updated_at, public_key, previous_public_key, last_used_at, created_at
	)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

func insertArgs(key keys.Key) []any {
	return append(keyArgs(key), nullTime(key.LastUsedAt), nullTime(key.CreatedAt))
}

const updateKey = `
	UPDATE canvasback_keys
	SET
		name = $1, prefix = $2, mask = $3, owner = $4, scopes = $5, digest = $6, previous_digest = $7,
		previous_expires_at = $8, active = $9, expires_at = $10, updated_at = $11, public_key = $12,
		previous_public_key = $13
	WHERE id = $14`

func (s Keys) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	key.UseCount = 0
	err := s.DB.WriteRow(ctx, insertKey+` RETURNING id`, insertArgs(key)...).Scan(&key.ID)
	return key, err
}

func (s Keys) Import(ctx context.Context, list []keys.Key) (ids []int64, err error) {
	var digests [][]byte
	var inserts [][]any
	for _, key := range list {
		digests, inserts = append(digests, key.Digest[:]), append(inserts, insertArgs(key))
	}
	var taken error
	err = s.DB.Transact(ctx, func(tx Tx) error {
		// A raw key whose overlap has ended does not exist any more.
		_, err := tx.Exec(ctx, `
			UPDATE canvasback_keys
			SET previous_digest = NULL, previous_expires_at = NULL
			WHERE previous_digest = ANY ($1::bytea[]) AND previous_expires_at <= $2`,
			digests, list[0].CreatedAt,
		)
		if err != nil {
			return err
		}
		found, err := List(ctx, tx, scanKey, selectKeys+`
			WHERE digest = ANY ($1::bytea[]) OR previous_digest = ANY ($1::bytea[])`,
			digests,
		)
		if err != nil {
			return err
		}
		isTaken := func(key keys.Key) bool {
			return slices.ContainsFunc(found, func(other keys.Key) bool {
				return key.Digest == other.Digest || key.Digest == other.PreviousDigest
			})
		}
		if taken = nil; len(found) > 0 {
			taken = &keys.TakenError{Index: slices.IndexFunc(list, isTaken)}
			return nil // commits the ends of overlaps
		}
		if _, err := tx.ExecAll(ctx, insertKey, inserts); err != nil {
			return err
		}
		ids, err = List(ctx, tx, scanID, `
			SELECT id
			FROM canvasback_keys
			WHERE digest = ANY ($1::bytea[])
			ORDER BY id`,
			digests,
		)
		return err
	})
	return ids, cmp.Or(err, taken)
}

func (s Keys) Get(ctx context.Context, id int64) (keys.Key, error) {
	return One(s.DB.QueryRow(ctx, selectKeys+` WHERE id = $1`, id), scanKey)
}

func (s Keys) FindID(ctx context.Context, id int64) (keys.Key, error) {
	return One(s.DB.QueryCurrent(ctx, selectKeys+` WHERE id = $1`, id), scanKey)
}

func (s Keys) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	return One(s.DB.QueryCurrent(ctx, selectKeys+`
		WHERE digest = $1 OR previous_digest = $1`,
		digest[:],
	), scanKey)
}

func (s Keys) List(ctx context.Context, filter keys.Filter, r keys.Range) (page keys.Page, err error) {
	where, args := "id > $1", []any{r.After, paging.FetchLimit(r.Limit)}
	if filter.Owner != nil {
		where, args = where+" AND owner = $3 AND owner <> ''", append(args, *filter.Owner)
	}
	list, err := List(ctx, s.DB, scanKey, selectKeys+`
		WHERE `+where+`
		ORDER BY id
		LIMIT CAST($2 AS bigint)`,
		args...,
	)
	page.Keys, page.More = paging.Cut(list, r.Limit)
	return page, err
}

func (s Keys) Update(ctx context.Context, ids []int64, change func([]keys.Key) error) ([]keys.Key, error) {
	return s.update(ctx, ids, func(tx Tx, list []keys.Key) error {
		modified, rejected := keyrecord.Change(list, change)
		var updates [][]any
		for _, key := range modified {
			updates = append(updates, append(keyArgs(key), key.ID))
		}
		_, err := tx.ExecAll(ctx, updateKey, updates)
		return cmp.Or(rejected, err)
	})
}

func (s Keys) Delete(ctx context.Context, ids []int64, check func([]keys.Key) error) ([]keys.Key, error) {
	return s.update(ctx, ids, func(tx Tx, list []keys.Key) (err error) {
		if err = check(slices.Clone(list)); err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM canvasback_keys WHERE id = ANY ($1::bigint[])`, ids)
		}
		return err
	})
}

// update calls write with the keys that have the ids, ids ascending, in a transaction.
func (s Keys) update(ctx context.Context, ids []int64, write func(Tx, []keys.Key) error) (list []keys.Key, err error) {
	err = s.DB.Transact(ctx, func(tx Tx) (err error) {
		list, err = List(ctx, tx, scanKey, selectKeys+`
			WHERE id = ANY ($1::bigint[])
			ORDER BY id
			FOR UPDATE`,
			ids,
		)
		if err == nil {
			err = write(tx, list)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s Keys) Usage(ctx context.Context, ids []int64, owner *string, since int64) ([]keys.UsageRow, error) {
	columns, where, group, args := "0", "day >= CAST($1 AS bigint)", "day", []any{since}
	if ids != nil {
		columns, group = "key_id", "key_id, day"
		where, args = where+" AND key_id = ANY ($2::bigint[])", append(args, ids)
	}
	if owner != nil {
		args = append(args, *owner)
		where += fmt.Sprintf(" AND owner = $%d", len(args))
	}
	return List(ctx, s.DB, func(row Row, usage *keys.UsageRow) error {
		return row.Scan(&usage.KeyID, &usage.Day, &usage.Requests)
	}, `
		SELECT `+columns+`, day, CAST(sum(requests) AS bigint)
		FROM canvasback_key_usage
		WHERE `+where+`
		GROUP BY `+group,
		args...,
	)
}

func (s Keys) PruneUsage(ctx context.Context, before int64, most int) (int, error) {
	removed, err := s.DB.Exec(ctx, `
		WITH old AS MATERIALIZED ( -- a subquery could run, and skip what it has found, several times
			SELECT key_id, day, owner
			FROM canvasback_key_usage
			WHERE day < CAST($1 AS bigint)
			LIMIT CAST($2 AS bigint)
			FOR UPDATE SKIP LOCKED
		)
		DELETE FROM canvasback_key_usage
		WHERE (key_id, day, owner) IN (SELECT key_id, day, owner FROM old)`,
		before, most,
	)
	return int(removed), err
}

func (Keys) Shared() bool { return true }
