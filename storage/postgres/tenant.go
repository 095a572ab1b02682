package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/symbols"
)

func (s symbolStore) Tenant(tenant string) symbols.Store { return symbolStore{s.db, tenant} }

func (s symbolStore) AssignTenant(ctx context.Context, to string) error {
	return s.db.transact(ctx, func(tx pgx.Tx) error {
		err := s.execTx(ctx, tx, `UPDATE canvasback_folders SET tenant = $2 WHERE tenant = $1`, s.tenant, to)
		if err == nil {
			err = s.execTx(ctx, tx, `UPDATE canvasback_trash SET tenant = $2 WHERE tenant = $1`, s.tenant, to)
		}
		if err == nil {
			err = s.execTx(ctx, tx, `UPDATE canvasback_symbol_segments SET version = 1 + (random() * 2 ^ 62)::bigint`)
		}
		return err
	})
}

// listVersion selects the version of the folder list of the tenant $1. That of a tenant
// which never had a folder is 1.
func (s symbolStore) listVersion() string {
	if s.tenant == "" {
		return `(SELECT version FROM canvasback_folder_list WHERE $1::text = '')`
	}
	return `coalesce((SELECT version FROM canvasback_tenant_lists WHERE tenant = $1::text), 1)`
}
