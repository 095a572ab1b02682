package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/exports"
)

func (s exportStore) InsertLink(ctx context.Context, link exports.StoredLink, limits exports.LinkLimits) error {
	// Each subquery sees the table without deletions. Rows that a concurrent call
	// deletes are skipped, so calls do not wait for each other.
	inserted, err := s.db.exec(ctx, `
		WITH ended AS (
			SELECT id
			FROM canvasback_links
			WHERE expires_at <= $4 OR owner = $2 AND served >= $12
			ORDER BY id
			LIMIT $13
			FOR UPDATE SKIP LOCKED
		), deleted AS (
			DELETE FROM canvasback_links
			WHERE id IN (SELECT id FROM ended)
		), held AS (
			SELECT count(*) AS links, coalesce(sum(size), 0)::bigint AS bytes,
				count(*) FILTER (WHERE client = $3) AS client_links,
				coalesce(sum(size) FILTER (WHERE client = $3), 0)::bigint AS client_bytes
			FROM canvasback_links
			WHERE owner = $2 AND expires_at > $4 AND served < $12
		)
		INSERT INTO canvasback_links (digest, owner, client, created_at, expires_at, plan, size, tenant)
		SELECT $1, $2, $3, $4, $5, $6, $7::bigint, $14
		FROM held
		WHERE links < $8 AND bytes + $7::bigint <= $9 AND client_links < $10 AND client_bytes + $7::bigint <= $11`,
		link.Digest[:], link.Owner[:], link.Client[:], link.CreatedAt, link.ExpiresAt, notNull(link.Plan), int64(len(link.Plan)),
		limits.PerOwner.Links, limits.PerOwner.Bytes, limits.PerClient.Links, limits.PerClient.Bytes, limits.Served, exports.PruneStep, link.Tenant,
	)
	if err == nil && inserted == 0 {
		return exports.ErrTooManyLinks
	}
	return err
}

func (s exportStore) FindLink(ctx context.Context, digest exports.Digest, withPlan bool) (exports.StoredLink, error) {
	return scanLink(digest, s.db.readRow(ctx, `
		SELECT tenant, owner, client, version, served, created_at, expires_at, size, CASE WHEN $2 THEN plan END
		FROM canvasback_links
		WHERE digest = $1`,
		digest[:], withPlan,
	))
}

func scanLink(digest exports.Digest, row pgx.Row) (exports.StoredLink, error) {
	link := exports.StoredLink{Digest: digest}
	var owner, client []byte
	err := row.Scan(&link.Tenant, &owner, &client, &link.Version, &link.Served, &link.CreatedAt, &link.ExpiresAt, &link.PlanSize, &link.Plan)
	if errors.Is(err, pgx.ErrNoRows) {
		return exports.StoredLink{}, exports.ErrLinkNotFound
	}
	if err != nil {
		return exports.StoredLink{}, err
	}
	copy(link.Owner[:], owner)
	copy(link.Client[:], client)
	link.CreatedAt, link.ExpiresAt = link.CreatedAt.UTC(), link.ExpiresAt.UTC()
	return link, nil
}

func (s exportStore) ReplacePlan(ctx context.Context, digest exports.Digest, version int64, plan []byte) (exports.StoredLink, error) {
	link, err := scanLink(digest, s.db.writeRow(ctx, `
		UPDATE canvasback_links
		SET plan = $3, size = octet_length($3::bytea), version = version + 1
		WHERE digest = $1 AND version = $2
		RETURNING tenant, owner, client, version, served, created_at, expires_at, size, plan`,
		digest[:], version, notNull(plan),
	))
	if err == exports.ErrLinkNotFound { // or another version
		return s.FindLink(ctx, digest, true)
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
