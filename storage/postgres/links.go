package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/exports"
)

func (s exportStore) InsertLink(ctx context.Context, link exports.StoredLink, limits exports.LinkLimits) error {
	// Each subquery sees the table without the new link. Rows that a
	// concurrent call deletes are skipped, so calls do not wait for each
	// other.
	_, err := s.db.exec(ctx, `
		WITH inserted AS (
			INSERT INTO canvasback_links (digest, owner, created_at, expires_at, plan)
			VALUES ($1, $2, $3, $4, $5)
			RETURNING id
		), expired AS (
			SELECT id
			FROM canvasback_links
			WHERE expires_at <= $3
			ORDER BY expires_at
			LIMIT $8
			FOR UPDATE SKIP LOCKED
		), owned AS (
			SELECT id
			FROM canvasback_links
			WHERE owner = $2 AND id <= (
				SELECT id
				FROM canvasback_links
				WHERE owner = $2
				ORDER BY id DESC
				LIMIT 1 OFFSET $6
			)
			ORDER BY id
			LIMIT $8
			FOR UPDATE SKIP LOCKED
		), excess AS (
			SELECT id
			FROM canvasback_links
			WHERE id <= (SELECT id FROM inserted) - $7
			ORDER BY id
			LIMIT $8
			FOR UPDATE SKIP LOCKED
		)
		DELETE FROM canvasback_links
		WHERE id IN (
			SELECT id FROM expired
			UNION ALL
			SELECT id FROM owned
			UNION ALL
			SELECT id FROM excess
		)`,
		link.Digest[:], link.Owner[:], link.CreatedAt, link.ExpiresAt, notNull(link.Plan),
		limits.PerOwner-1, limits.Total, exports.PruneStep,
	)
	return err
}

func (s exportStore) FindLink(ctx context.Context, digest exports.Digest, known int64) (exports.StoredLink, error) {
	return scanLink(digest, s.db.readRow(ctx, `
		SELECT owner, version, served, created_at, expires_at, CASE WHEN version <> $2 THEN plan END
		FROM canvasback_links
		WHERE digest = $1`,
		digest[:], known,
	))
}

func scanLink(digest exports.Digest, row pgx.Row) (exports.StoredLink, error) {
	link := exports.StoredLink{Digest: digest}
	var owner []byte
	err := row.Scan(&owner, &link.Version, &link.Served, &link.CreatedAt, &link.ExpiresAt, &link.Plan)
	if errors.Is(err, pgx.ErrNoRows) {
		return exports.StoredLink{}, exports.ErrLinkNotFound
	}
	if err != nil {
		return exports.StoredLink{}, err
	}
	copy(link.Owner[:], owner)
	link.CreatedAt, link.ExpiresAt = link.CreatedAt.UTC(), link.ExpiresAt.UTC()
	return link, nil
}

func (s exportStore) ReplacePlan(ctx context.Context, digest exports.Digest, version int64, plan []byte) (exports.StoredLink, error) {
	var link exports.StoredLink
	err := s.db.write(ctx, func(conn *pgx.Conn) (err error) {
		link, err = scanLink(digest, conn.QueryRow(ctx, s.db.sql(`
			UPDATE canvasback_links
			SET plan = $3, version = version + 1
			WHERE digest = $1 AND version = $2
			RETURNING owner, version, served, created_at, expires_at, plan`),
			digest[:], version, notNull(plan),
		))
		return err
	})
	if err == exports.ErrLinkNotFound { // or another version
		return s.FindLink(ctx, digest, 0)
	}
	return link, err
}

func (s exportStore) AddServed(ctx context.Context, digest exports.Digest, amount int64) error {
	_, err := s.db.exec(ctx, `
		UPDATE canvasback_links
		SET served = served + $2
		WHERE digest = $1`,
		digest[:], amount,
	)
	return err
}

// notNull returns an empty value instead of NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
