package sqlstore

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/paging"
)

// Exports has methods of an [exports.Store] and an [exports.LinkStore].
type Exports struct{ DB DB }

// SelectExport selects what [ScanExport] reads.
const SelectExport = `
	SELECT id, tenant, source_url, exported_url, file_name, registered_by, created_at, updated_at
	FROM canvasback_exports`

// TenantPrefixSize is the length of what a driver may store before the source URLs of
// tenants. It begins with a space, and source URLs do not.
const TenantPrefixSize = 1 + 256

// ScanExport reads a row of [SelectExport].
func ScanExport(row Row, export *exports.Export) error {
	err := row.Scan(
		&export.ID, &export.Tenant, &export.SourceURL, &export.ExportedURL, &export.FileName, &export.RegisteredBy,
		(*Time)(&export.CreatedAt), (*Time)(&export.UpdatedAt),
	)
	if export.Tenant != "" && strings.HasPrefix(export.SourceURL, " ") {
		export.SourceURL = export.SourceURL[TenantPrefixSize:]
	}
	return orMissing(err, exports.ErrNotFound)
}

func (s Exports) Get(ctx context.Context, id int64) (exports.Export, error) {
	return One(s.DB.QueryRow(ctx, SelectExport+` WHERE id = $1`, id), ScanExport)
}

func (s Exports) Delete(ctx context.Context, id int64) error {
	affected, err := s.DB.Exec(ctx, `DELETE FROM canvasback_exports WHERE id = $1`, id)
	return require(affected, err, exports.ErrNotFound)
}

func (s Exports) List(ctx context.Context, filter exports.Filter, r exports.Range) (page exports.Page, err error) {
	list, err := List(ctx, s.DB, ScanExport, SelectExport+`
		WHERE id > $1 AND strpos(source_url, $2) > 0 AND (CAST($4 AS text) IS NULL OR tenant = $4)
		ORDER BY id
		LIMIT CAST($3 AS bigint)`,
		r.After, filter.Contains, paging.FetchLimit(r.Limit), filter.Tenant,
	)
	page.Exports, page.More = paging.Cut(list, r.Limit)
	return page, err
}

// InsertLink first deletes links that have ended. It skips those that another call deletes,
// so that calls do not wait for each other. It adds up sizes in an index: in the rows of
// SQLite they are behind the plans.
func (s Exports) InsertLink(ctx context.Context, link exports.StoredLink, limits exports.LinkLimits) error {
	return s.DB.Transact(ctx, func(tx Tx) error {
		_, err := tx.Exec(ctx, `
			WITH ended AS MATERIALIZED (
				SELECT id
				FROM canvasback_links
				WHERE expires_at <= $1 OR owner = $2 AND served >= $3
				LIMIT CAST($4 AS bigint)
				FOR UPDATE SKIP LOCKED
			)
			DELETE FROM canvasback_links
			WHERE id IN (SELECT id FROM ended)`,
			link.CreatedAt, link.Owner[:], limits.Served, exports.PruneStep,
		)
		if err != nil {
			return err
		}
		inserted, err := tx.Exec(ctx, `
			INSERT INTO canvasback_links (digest, owner, client, created_at, expires_at, plan, size, tenant)
			SELECT $1, $2, $3, $4, $5, $6, CAST($7 AS bigint), $8
			FROM (
				SELECT count(*) AS links, CAST(coalesce(sum(size), 0) AS bigint) AS bytes,
					count(*) FILTER (WHERE client = $3) AS client_links,
					CAST(coalesce(sum(size) FILTER (WHERE client = $3), 0) AS bigint) AS client_bytes
				FROM canvasback_links
				WHERE owner = $2 AND id NOT IN (
					SELECT id
					FROM canvasback_links
					WHERE owner = $2 AND (expires_at <= $4 OR served >= $9)
				)
			) AS held
			WHERE links < $10 AND bytes + CAST($7 AS bigint) <= $11
				AND client_links < $12 AND client_bytes + CAST($7 AS bigint) <= $13`,
			link.Digest[:], link.Owner[:], link.Client[:], link.CreatedAt, link.ExpiresAt, notNull(link.Plan), int64(len(link.Plan)),
			link.Tenant, limits.Served, limits.PerOwner.Links, limits.PerOwner.Bytes, limits.PerClient.Links, limits.PerClient.Bytes,
		)
		return require(inserted, err, exports.ErrTooManyLinks)
	})
}

func scanLink(digestOfLink exports.Digest, row Row) (exports.StoredLink, error) {
	link := exports.StoredLink{Digest: digestOfLink}
	err := row.Scan(
		&link.Tenant, (*digest)(&link.Owner), (*digest)(&link.Client), &link.Version, &link.Served,
		(*Time)(&link.CreatedAt), (*Time)(&link.ExpiresAt), &link.PlanSize, &link.Plan,
	)
	return link, orMissing(err, exports.ErrLinkNotFound)
}

func (s Exports) FindLink(ctx context.Context, digest exports.Digest, withPlan bool) (exports.StoredLink, error) {
	return scanLink(digest, s.DB.QueryRow(ctx, `
		SELECT tenant, owner, client, version, served, created_at, expires_at, size, CASE WHEN $2 THEN plan END
		FROM canvasback_links
		WHERE digest = $1`,
		digest[:], withPlan,
	))
}

func (s Exports) ReplacePlan(ctx context.Context, digest exports.Digest, version int64, plan []byte) (exports.StoredLink, error) {
	link, err := scanLink(digest, s.DB.WriteRow(ctx, `
		UPDATE canvasback_links
		SET plan = $3, size = $4, version = version + 1
		WHERE digest = $1 AND version = $2
		RETURNING tenant, owner, client, version, served, created_at, expires_at, size, plan`,
		digest[:], version, notNull(plan), len(plan),
	))
	if err == exports.ErrLinkNotFound { // or another version
		return s.FindLink(ctx, digest, true)
	}
	return link, err
}

func (s Exports) AddServed(ctx context.Context, digest exports.Digest, amount int64) error {
	_, err := s.DB.Exec(ctx, `UPDATE canvasback_links SET served = served + $2 WHERE digest = $1`, digest[:], amount)
	return err
}

func (s Exports) FindFacts(ctx context.Context, urls ...[32]byte) ([]exports.Fact, error) {
	digests := make([][]byte, len(urls))
	for i := range urls {
		digests[i] = urls[i][:]
	}
	return List(ctx, s.DB, func(row Row, fact *exports.Fact) error {
		return row.Scan((*digest)(&fact.URL), &fact.Validator, &fact.Size, &fact.Revision, &fact.CRC32, &fact.Blocks)
	}, `
		SELECT url_digest, validator, size, revision, crc32, blocks
		FROM canvasback_facts
		WHERE url_digest = ANY ($1::bytea[])`,
		digests,
	)
}

func (s Exports) PutFacts(ctx context.Context, facts []exports.Fact, limit int) error {
	if len(facts) == 0 {
		return ctx.Err()
	}
	// Two calls that locked the same rows in different orders would deadlock.
	facts = slices.SortedFunc(slices.Values(facts), func(a, b exports.Fact) int {
		return bytes.Compare(a.URL[:], b.URL[:])
	})
	var list [][]any
	for _, fact := range facts {
		list = append(list, []any{
			fact.URL[:], fact.Validator, fact.Size, fact.Revision, fact.CRC32, notNull(fact.Blocks), time.Unix(0, 0),
		})
	}
	return s.DB.Transact(ctx, func(tx Tx) error {
		_, err := tx.ExecAll(ctx, `
			INSERT INTO canvasback_facts (
				url_digest, validator, size, revision, crc32, blocks, type, name, seen_at
			)
			VALUES ($1, $2, $3, $4, $5, $6, '', '', $7) -- the last three are unused
			ON CONFLICT (url_digest) DO UPDATE
			SET id = excluded.id, validator = $2, size = $3, revision = $4, crc32 = $5, blocks = $6,
				type = '', name = '', modified = NULL, seen_at = $7
			WHERE canvasback_facts.revision <= $4`,
			list,
		)
		if err == nil {
			_, err = tx.Exec(ctx, `
				WITH oldest AS MATERIALIZED (
					SELECT id
					FROM canvasback_facts
					WHERE id <= (SELECT max(id) FROM canvasback_facts) - CAST($1 AS bigint)
					ORDER BY id
					LIMIT CAST($2 AS bigint)
					FOR UPDATE SKIP LOCKED
				)
				DELETE FROM canvasback_facts
				WHERE id IN (SELECT id FROM oldest)`,
				limit, exports.PruneStep,
			)
		}
		return err
	})
}
