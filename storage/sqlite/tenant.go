package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/sqlstore"
	"example.com/canvasback/symbols"
)

// tenantPrefix returns what stands before the names of folders and the source URLs of a
// tenant. Their columns are unique, which processes of the previous version rely on. No
// record of another tenant has such a value: a source URL does not begin with a space,
// and a name has at most 255 characters.
func tenantPrefix(tenant string) string {
	if tenant == "" {
		return ""
	}
	digest := sha256.Sum256([]byte(tenant))
	return " " + strings.Repeat(hex.EncodeToString(digest[:]), 4)
}

func (s symbolStore) AssignTenant(ctx context.Context, to string) error {
	return s.DB.Transact(ctx, func(tx sqlstore.Tx) error {
		err := assign(ctx, tx, "canvasback_folders", "name", s.Of, to, symbols.ErrFolderNameTaken)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE canvasback_trash SET tenant = ? WHERE tenant = ?`, to, s.Of)
		}
		return err
	})
}

func (s exportStore) AssignTenant(ctx context.Context, from, to string) error {
	return s.DB.Transact(ctx, func(tx sqlstore.Tx) error {
		err := assign(ctx, tx, "canvasback_exports", "source_url", from, to, exports.ErrTaken)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE canvasback_links SET tenant = ? WHERE tenant = ?`, to, from)
		}
		return err
	})
}

// assign gives the rows of a table to another tenant, or returns the error taken if that
// has one with the same value in a column, which has the tenant's prefix.
func assign(ctx context.Context, tx sqlstore.Tx, table, column, from, to string, taken error) error {
	start, prefix := len(tenantPrefix(from))+1, tenantPrefix(to)
	var exists bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT 1
			FROM `+table+` AS own
			JOIN `+table+` AS other ON other.`+column+` = ?1 || substr(own.`+column+`, ?2)
			WHERE own.tenant = ?3
		)`,
		prefix, start, from,
	).Scan(&exists)
	if err != nil {
		return err
	}
	if exists {
		return taken
	}
	_, err = tx.Exec(ctx, `
		UPDATE `+table+`
		SET tenant = ?1, `+column+` = ?2 || substr(`+column+`, ?3)
		WHERE tenant = ?4`,
		to, prefix, start, from,
	)
	return err
}
