package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"example.com/canvasback/exports"
)

func (s exportStore) InsertLink(ctx context.Context, link exports.StoredLink, limits exports.LinkLimits) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, `
			INSERT INTO canvasback_links (digest, owner, created_at, expires_at, plan)
			VALUES (?, ?, ?, ?, ?)`,
			link.Digest[:], link.Owner[:], toMillis(link.CreatedAt), toMillis(link.ExpiresAt), notNull(link.Plan),
		)
		if err != nil {
			return err
		}
		id, err := result.LastInsertId()
		if err != nil {
			return err
		}
		for _, prune := range []struct {
			statement string
			args      []any
		}{
			{`DELETE FROM canvasback_links
			WHERE id IN (
				SELECT id FROM canvasback_links
				WHERE expires_at <= ?
				ORDER BY expires_at
				LIMIT ?
			)`, []any{toMillis(link.CreatedAt), exports.PruneStep}},
			{`DELETE FROM canvasback_links
			WHERE id IN (
				SELECT id FROM canvasback_links
				WHERE owner = ?1 AND id <= (
					SELECT id FROM canvasback_links
					WHERE owner = ?1
					ORDER BY id DESC
					LIMIT 1 OFFSET ?2
				)
				ORDER BY id
				LIMIT ?3
			)`, []any{link.Owner[:], limits.PerOwner, exports.PruneStep}},
			{`DELETE FROM canvasback_links
			WHERE id IN (
				SELECT id FROM canvasback_links
				WHERE id <= ?
				ORDER BY id
				LIMIT ?
			)`, []any{id - int64(limits.Total), exports.PruneStep}},
		} {
			if _, err := conn.ExecContext(ctx, prune.statement, prune.args...); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s exportStore) FindLink(ctx context.Context, digest exports.Digest, known int64) (exports.StoredLink, error) {
	return scanLink(digest, s.db.queryRow(ctx, `
		SELECT owner, version, served, created_at, expires_at, CASE WHEN version <> ? THEN plan END
		FROM canvasback_links
		WHERE digest = ?`,
		known, digest[:],
	))
}

func scanLink(digest exports.Digest, row *sql.Row) (exports.StoredLink, error) {
	link := exports.StoredLink{Digest: digest}
	var (
		owner            []byte
		created, expires sql.NullInt64
	)
	err := row.Scan(&owner, &link.Version, &link.Served, &created, &expires, &link.Plan)
	if errors.Is(err, sql.ErrNoRows) {
		return exports.StoredLink{}, exports.ErrLinkNotFound
	}
	if err != nil {
		return exports.StoredLink{}, err
	}
	copy(link.Owner[:], owner)
	link.CreatedAt, link.ExpiresAt = fromMillis(created), fromMillis(expires)
	return link, nil
}

func (s exportStore) ReplacePlan(ctx context.Context, digest exports.Digest, version int64, plan []byte) (exports.StoredLink, error) {
	var link exports.StoredLink
	err := s.db.write(ctx, func(conn *sql.Conn) (err error) {
		link, err = scanLink(digest, conn.QueryRowContext(ctx, `
			UPDATE canvasback_links
			SET plan = ?, version = version + 1
			WHERE digest = ? AND version = ?
			RETURNING owner, version, served, created_at, expires_at, plan`,
			notNull(plan), digest[:], version,
		))
		return err
	})
	if err == exports.ErrLinkNotFound { // or another version
		return s.FindLink(ctx, digest, 0)
	}
	return link, err
}

func (s exportStore) AddServed(ctx context.Context, digest exports.Digest, amount int64) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, `
			UPDATE canvasback_links
			SET served = served + ?
			WHERE digest = ?`,
			amount, digest[:],
		)
		return err
	})
}

// notNull returns an empty value instead of NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
