package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"example.com/canvasback/exports"
)

func (s exportStore) InsertLink(ctx context.Context, link exports.StoredLink, limits exports.LinkLimits) error {
	inserted := int64(0)
	err := s.db.write(ctx, func(conn *sql.Conn) error {
		for _, prune := range []struct {
			where string
			arg   []any
		}{
			{`expires_at <= ? ORDER BY expires_at`, []any{toMillis(link.CreatedAt)}},
			{`owner = ? AND served >= ? ORDER BY id`, []any{link.Owner[:], limits.Served}},
		} {
			if _, err := conn.ExecContext(ctx, `
				DELETE FROM canvasback_links
				WHERE id IN (SELECT id FROM canvasback_links WHERE `+prune.where+` LIMIT ?)`,
				append(prune.arg, exports.PruneStep)...,
			); err != nil {
				return err
			}
		}
		result, err := conn.ExecContext(ctx, `
			INSERT INTO canvasback_links (digest, owner, client, created_at, expires_at, plan, size, tenant)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?12
			FROM (
				SELECT count(*) AS links, total(size) AS bytes,
					count(*) FILTER (WHERE client = ?3) AS client_links, total(size) FILTER (WHERE client = ?3) AS client_bytes
				FROM canvasback_links
				WHERE owner = ?2
			)
			WHERE links < ?8 AND bytes + ?7 <= ?9 AND client_links < ?10 AND client_bytes + ?7 <= ?11`,
			link.Digest[:], link.Owner[:], link.Client[:], toMillis(link.CreatedAt), toMillis(link.ExpiresAt), notNull(link.Plan), len(link.Plan),
			limits.PerOwner.Links, limits.PerOwner.Bytes, limits.PerClient.Links, limits.PerClient.Bytes, link.Tenant,
		)
		if err == nil {
			inserted, err = result.RowsAffected()
		}
		return err
	})
	if err == nil && inserted == 0 {
		return exports.ErrTooManyLinks
	}
	return err
}

func (s exportStore) FindLink(ctx context.Context, digest exports.Digest, withPlan bool) (exports.StoredLink, error) {
	return scanLink(digest, s.db.queryRow(ctx, `
		SELECT tenant, owner, client, version, served, created_at, expires_at, size, CASE WHEN ? THEN plan END
		FROM canvasback_links
		WHERE digest = ?`,
		withPlan, digest[:],
	))
}

func scanLink(digest exports.Digest, row *sql.Row) (exports.StoredLink, error) {
	link := exports.StoredLink{Digest: digest}
	var (
		owner, client    []byte
		created, expires sql.NullInt64
	)
	err := row.Scan(&link.Tenant, &owner, &client, &link.Version, &link.Served, &created, &expires, &link.PlanSize, &link.Plan)
	if errors.Is(err, sql.ErrNoRows) {
		return exports.StoredLink{}, exports.ErrLinkNotFound
	}
	if err != nil {
		return exports.StoredLink{}, err
	}
	copy(link.Owner[:], owner)
	copy(link.Client[:], client)
	link.CreatedAt, link.ExpiresAt = fromMillis(created), fromMillis(expires)
	return link, nil
}

func (s exportStore) ReplacePlan(ctx context.Context, digest exports.Digest, version int64, plan []byte) (exports.StoredLink, error) {
	var link exports.StoredLink
	err := s.db.write(ctx, func(conn *sql.Conn) (err error) {
		link, err = scanLink(digest, conn.QueryRowContext(ctx, `
			UPDATE canvasback_links
			SET plan = ?, size = ?, version = version + 1
			WHERE digest = ? AND version = ?
			RETURNING tenant, owner, client, version, served, created_at, expires_at, size, plan`,
			notNull(plan), len(plan), digest[:], version,
		))
		return err
	})
	if err == exports.ErrLinkNotFound { // or another version
		return s.FindLink(ctx, digest, true)
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
