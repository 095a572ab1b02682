package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/keyrecord"
	"example.com/canvasback/storage/internal/paging"
)

type keyStore struct{ db *database }

var _ keys.Store = keyStore{}

// keyColumns are the columns that scanKey reads.
const keyColumns = `
	id, name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
	expires_at, last_used_at, use_count, created_at, updated_at, public_key, previous_public_key`

func scanKey(row pgx.Row) (keys.Key, error) {
	var (
		key                                keys.Key
		scopes                             string
		digest, previous                   []byte
		public, previousPublic             []byte
		previousExpires, expires, lastUsed *time.Time
	)
	err := row.Scan(
		&key.ID, &key.Name, &key.Prefix, &key.Mask, &key.Owner, &scopes, &digest, &previous, &previousExpires, &key.Active,
		&expires, &lastUsed, &key.UseCount, &key.CreatedAt, &key.UpdatedAt,
		&public, &previousPublic,
	)
	if errors.Is(err, pgx.ErrNoRows) {
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
	key.PublicKey = keyrecord.PublicKey(public, key.Digest)
	key.PreviousPublicKey = keyrecord.PublicKey(previousPublic, key.PreviousDigest)
	key.PreviousExpiresAt = fromNullTime(previousExpires)
	key.ExpiresAt, key.LastUsedAt = fromNullTime(expires), fromNullTime(lastUsed)
	key.CreatedAt, key.UpdatedAt = key.CreatedAt.UTC(), key.UpdatedAt.UTC()
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
	err := s.db.writeRow(ctx, `
		INSERT INTO canvasback_keys (
			name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
			expires_at, last_used_at, created_at, updated_at, public_key, previous_public_key
		)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		RETURNING id`,
		key.Name, key.Prefix, key.Mask, key.Owner, key.Scopes.String(),
		key.Digest[:], previousDigest(key), nullTime(key.PreviousExpiresAt), key.Active,
		nullTime(key.ExpiresAt), nullTime(key.LastUsedAt), key.CreatedAt, key.UpdatedAt,
		keyrecord.PublicKeyColumn(key.Digest, key.PublicKey), keyrecord.PublicKeyColumn(key.PreviousDigest, key.PreviousPublicKey),
	).Scan(&key.ID)
	if err != nil {
		return keys.Key{}, err
	}
	key.UseCount = 0
	return key, nil
}

func (s keyStore) Import(ctx context.Context, list []keys.Key) (ids []int64, err error) {
	indexes := make(map[keys.Digest]int)
	digests := make([][]byte, len(list))
	for i, key := range list {
		indexes[key.Digest], digests[i] = i, key.Digest[:]
	}
	var taken error
	err = s.db.transact(ctx, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, s.db.sql(`
			SELECT unnest(ARRAY [digest, previous_digest])
			FROM canvasback_keys
			WHERE digest = ANY ($1) OR previous_digest = ANY ($1)`),
			digests,
		) // rows return the error too
		found, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		if err != nil {
			return err
		}
		first := len(list)
		for _, digest := range found {
			if len(digest) > 0 {
				if i, ok := indexes[keys.Digest(digest)]; ok {
					first = min(first, i)
				}
			}
		}
		if taken = nil; first < len(list) {
			taken = &keys.TakenError{Index: first}
			return nil // commits without a change
		}
		ids = make([]int64, len(list))
		rows, _ = tx.Query(ctx, s.db.sql(`
			INSERT INTO canvasback_keys (
				name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
				expires_at, updated_at, public_key, previous_public_key, created_at
			)
			SELECT
				name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
				expires_at, updated_at, public_key, previous_public_key, created_at
			FROM `+keyRows+`
			ORDER BY ordinality
			RETURNING id, digest`),
			keyArrays(list)...,
		)
		var id int64
		var digest []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &digest}, func() error {
			ids[indexes[keys.Digest(digest)]] = id
			return nil
		})
		return err
	})
	if err := cmp.Or(err, taken); err != nil {
		return nil, err
	}
	return ids, nil
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

// lockKeys returns the keys that have the ids, ids ascending, and locks them.
func (s keyStore) lockKeys(ctx context.Context, tx pgx.Tx, ids []int64) ([]keys.Key, error) {
	rows, _ := tx.Query(ctx, s.db.sql(`
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE id = ANY ($1)
		ORDER BY id
		FOR UPDATE`),
		ids,
	) // rows return the error too
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (keys.Key, error) { return scanKey(row) })
}

func (s keyStore) Update(ctx context.Context, ids []int64, change func([]keys.Key) error) (list []keys.Key, err error) {
	var rejected error // by change
	err = s.db.transact(ctx, func(tx pgx.Tx) (err error) {
		if list, err = s.lockKeys(ctx, tx, ids); err != nil {
			return err
		}
		modified, err := keyrecord.Change(list, change)
		// The state that was read may have been committed without the standby.
		if rejected = err; rejected != nil || len(modified) == 0 {
			return nil //nolint:nilerr // commits without a change
		}
		return s.storeKeys(ctx, tx, modified)
	})
	if err := cmp.Or(err, rejected); err != nil {
		return nil, err
	}
	return list, nil
}

// storeKeys replaces keys by one statement, so that the log has them as one change.
func (s keyStore) storeKeys(ctx context.Context, tx pgx.Tx, list []keys.Key) error {
	_, err := tx.Exec(ctx, s.db.sql(`
		UPDATE canvasback_keys AS key
		SET
			name = changed.name, prefix = changed.prefix, mask = changed.mask, owner = changed.owner, scopes = changed.scopes,
			digest = changed.digest, previous_digest = changed.previous_digest, previous_expires_at = changed.previous_expires_at,
			active = changed.active, expires_at = changed.expires_at, updated_at = changed.updated_at,
			public_key = changed.public_key, previous_public_key = changed.previous_public_key
		FROM (SELECT * FROM `+keyRows+`) AS changed
		WHERE key.id = changed.id`),
		keyArrays(list)...,
	)
	return err
}

// keyRows are the keys of keyArrays.
const keyRows = `
	unnest(
		$1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::bytea[],
		$9::timestamptz[], $10::boolean[], $11::timestamptz[], $12::timestamptz[], $13::bytea[], $14::bytea[], $15::timestamptz[]
	) WITH ORDINALITY AS given (
		id, name, prefix, mask, owner, scopes, digest, previous_digest,
		previous_expires_at, active, expires_at, updated_at, public_key, previous_public_key, created_at, ordinality
	)`

// keyArrays returns the parameters of keyRows.
func keyArrays(list []keys.Key) []any {
	var (
		ids                                    []int64
		names, prefixes, masks, owners, scopes []string
		digests, previous                      [][]byte
		public, previousPublic                 [][]byte
		active                                 []bool
		previousExpires, expires               []*time.Time
		created, updated                       []time.Time
	)
	for _, key := range list {
		ids = append(ids, key.ID)
		names, prefixes, masks = append(names, key.Name), append(prefixes, key.Prefix), append(masks, key.Mask)
		owners, scopes = append(owners, key.Owner), append(scopes, key.Scopes.String())
		digests, previous = append(digests, key.Digest[:]), append(previous, previousDigest(key))
		public = append(public, keyrecord.PublicKeyColumn(key.Digest, key.PublicKey))
		previousPublic = append(previousPublic, keyrecord.PublicKeyColumn(key.PreviousDigest, key.PreviousPublicKey))
		active = append(active, key.Active)
		previousExpires, expires = append(previousExpires, nullTime(key.PreviousExpiresAt)), append(expires, nullTime(key.ExpiresAt))
		created, updated = append(created, key.CreatedAt), append(updated, key.UpdatedAt)
	}
	return []any{
		ids, names, prefixes, masks, owners, scopes, digests, previous,
		previousExpires, active, expires, updated, public, previousPublic, created,
	}
}

func (s keyStore) Delete(ctx context.Context, ids []int64, check func([]keys.Key) error) (list []keys.Key, err error) {
	var rejected error // by check
	err = s.db.transact(ctx, func(tx pgx.Tx) (err error) {
		if list, err = s.lockKeys(ctx, tx, ids); err != nil {
			return err
		}
		if rejected = check(slices.Clone(list)); rejected != nil {
			return nil //nolint:nilerr // commits without a change, as Update does
		}
		_, err = tx.Exec(ctx, s.db.sql(`DELETE FROM canvasback_keys WHERE id = ANY ($1)`), ids)
		return err
	})
	if err := cmp.Or(err, rejected); err != nil {
		return nil, err
	}
	return list, nil
}

func (s keyStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	return scanKey(s.db.readFenced(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE digest = $1 OR previous_digest = $1`,
		digest[:],
	))
}

func (s keyStore) FindID(ctx context.Context, id int64) (keys.Key, error) {
	return scanKey(s.db.readFenced(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE id = $1`,
		id,
	))
}

func (s keyStore) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	if len(uses) == 0 {
		return nil
	}
	ids, counts := make([]int64, len(uses)), make([]int64, len(uses))
	created, times := make([]time.Time, len(uses)), make([]time.Time, len(uses))
	publics, todays := make([][]byte, len(uses)), make([]int64, len(uses))
	for i, use := range uses {
		todays[i] = use.Today
		publics[i] = keyrecord.PublicKeyColumn(use.Digest, use.PublicKey)
		ids[i], created[i], times[i], counts[i] = use.ID, use.CreatedAt, use.At, use.Count
	}
	// Rows are locked by ascending id, so concurrent calls cannot deadlock. Those of a key's
	// usage are locked with the key.
	_, err := s.db.exec(ctx, `
		WITH touched AS (
			UPDATE canvasback_keys AS key
			SET
				last_used_at = CASE WHEN key.last_used_at BETWEEN used.at AND $5 THEN key.last_used_at ELSE used.at END,
				use_count = key.use_count + used.count,
				public_key = CASE key.digest WHEN substr(used.public, 1, 32) THEN used.public ELSE key.public_key END,
				previous_public_key = CASE key.previous_digest WHEN substr(used.public, 1, 32) THEN used.public ELSE key.previous_public_key END
			FROM (
				SELECT key.id, used.at, used.count, used.public, used.today
				FROM canvasback_keys AS key
				JOIN unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::bigint[], $6::bytea[], $7::bigint[])
					AS used (id, created_at, at, count, public, today)
					USING (id, created_at)
				WHERE key.created_at <= used.at
				ORDER BY key.id
				FOR NO KEY UPDATE OF key
			) AS used
			WHERE key.id = used.id
			RETURNING key.id, key.owner, floor(extract(epoch FROM used.at) / 86400)::integer AS day, used.today, used.count - used.today AS before
		)
		INSERT INTO canvasback_key_usage AS usage (key_id, day, owner, requests)
		SELECT touched.id, touched.day - ago.days, touched.owner, ago.requests
		FROM touched
		CROSS JOIN LATERAL (VALUES (0, touched.today), (1, touched.before)) AS ago (days, requests)
		WHERE ago.requests <> 0
		ON CONFLICT (key_id, day, owner) DO UPDATE SET requests = usage.requests + excluded.requests`,
		ids, created, times, counts, now.Add(keys.MaxClockSkew), publics, todays,
	)
	return err
}

func (s keyStore) Usage(ctx context.Context, ids []int64, owner *string, since int64) ([]keys.UsageRow, error) {
	columns, where, group, args := "0::bigint, day, sum(requests)::bigint", "day >= $1", "day", []any{since}
	if ids != nil {
		columns, group = "key_id, day, sum(requests)::bigint", "key_id, day"
		where, args = where+" AND key_id = ANY ($2)", append(args, ids)
	}
	if owner != nil {
		args = append(args, *owner)
		where += fmt.Sprintf(" AND owner = $%d", len(args))
	}
	return readRows(ctx, s.db, func(row pgx.CollectableRow) (usage keys.UsageRow, err error) {
		err = row.Scan(&usage.KeyID, &usage.Day, &usage.Requests)
		return usage, err
	}, `
		SELECT `+columns+`
		FROM canvasback_key_usage
		WHERE `+where+`
		GROUP BY `+group,
		args...,
	)
}

func (s keyStore) PruneUsage(ctx context.Context, before int64, most int) (int, error) {
	removed, err := s.db.exec(ctx, `
		DELETE FROM canvasback_key_usage
		WHERE ctid = ANY (ARRAY (SELECT ctid FROM canvasback_key_usage WHERE day < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`,
		before, most,
	)
	return int(removed), err
}

func (s keyStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	var (
		epoch   int64
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
	result, age, err := s.db.ask(ctx, `
		WITH
			last AS (
				SELECT epoch, number, tableoid::bigint AS relation
				FROM canvasback_key_epoch
				LIMIT 1
			),
			known AS (
				SELECT epoch, number
				FROM canvasback_key_changes
				WHERE epoch <= $1 - (SELECT relation FROM last)
				ORDER BY epoch DESC, number DESC
				LIMIT 1
			)
		SELECT
			last.epoch + last.relation,
			last.number - known.number,
			CASE WHEN known.number IS NOT NULL THEN ARRAY (
				SELECT digest
				FROM canvasback_key_changes
				WHERE number > known.number
				ORDER BY number
			) END
		FROM last
		LEFT JOIN known ON known.epoch = $1 - last.relation AND known.epoch <= last.epoch`,
		max(since, 0), // epochs are positive
	)
	if err == nil {
		err = result.Scan(&epoch, &length, &digests)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = errors.New("postgres: there is no epoch")
	}
	if err != nil {
		return keys.Changes{}, err
	}
	changes := keys.Changes{Epoch: epoch, Age: age, Complete: length != nil && *length == int64(len(digests))}
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
