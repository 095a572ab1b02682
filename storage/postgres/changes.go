package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/symbols"
)

// Changes returns what transactions have changed that had not ended at a position: that is
// the oldest transaction that runs. What has changed since then is returned until the
// position is behind it. A history is from one start of the server to the next, which
// may be another server with other transactions.
func (s symbolStore) Changes(ctx context.Context, since symbols.Position) (set symbols.ChangeSet, err error) {
	list, err := readRows(ctx, s.db, func(row pgx.CollectableRow) (symbols.Changed, error) {
		var changed symbols.Changed
		err := row.Scan(&set.History, &set.Number, &changed.Tenant, &changed.FolderID, &changed.Number)
		return changed, err
	}, `
		WITH current AS (
			SELECT
				(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS history,
				pg_snapshot_xmin(pg_current_snapshot()) AS oldest,
				pg_snapshot_xmax(pg_current_snapshot()) AS next
		), changed AS (
			SELECT tenant, id, changed FROM canvasback_folders
			UNION ALL
			SELECT '', 0, changed FROM canvasback_folder_list
			UNION ALL
			SELECT tenant, 0, changed FROM canvasback_tenant_lists
		)
		SELECT
			history, oldest::text::bigint, coalesce(tenant, ''), coalesce(id, -1), coalesce(changed::text::bigint, 0)
		FROM current
		LEFT JOIN changed ON history = $1 AND changed >= $2::bigint::text::xid8 AND changed < next`,
		since.History, max(since.Number, 0),
	)
	if len(list) == 1 && list[0].FolderID < 0 { // only the position
		list = nil
	}
	set.Changed = list
	return set, err
}
