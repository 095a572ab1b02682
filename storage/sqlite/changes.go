package sqlite

import (
	"context"

	"example.com/canvasback/storage/internal/sqlstore"
	"example.com/canvasback/symbols"
)

// Changes reads the position first: what changes until the second statement is returned
// again.
func (s symbolStore) Changes(ctx context.Context, since symbols.Position) (set symbols.ChangeSet, err error) {
	err = s.db.QueryRow(ctx, `
		SELECT history, number
		FROM canvasback_clock`,
	).Scan(&set.History, &set.Number)
	if err != nil || since.History != set.History || since.Number >= set.Number {
		return set, err
	}
	set.Changed, err = sqlstore.List(ctx, s.db, func(row sqlstore.Row) (changed symbols.Changed, err error) {
		err = row.Scan(&changed.Tenant, &changed.FolderID, &changed.Number)
		return changed, err
	}, `
		SELECT tenant, id, changed FROM canvasback_folders WHERE changed > ?1
		UNION ALL
		SELECT '', 0, changed FROM canvasback_folder_list WHERE changed > ?1
		UNION ALL
		SELECT tenant, 0, changed FROM canvasback_tenant_lists WHERE changed > ?1`,
		since.Number,
	)
	return set, err
}
