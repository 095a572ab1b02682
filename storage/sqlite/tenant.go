package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"

	"example.com/canvasback/symbols"
)

const tenantPrefixSize = 1 + 4*2*sha256.Size

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

func (s symbolStore) Tenant(tenant string) symbols.Store {
	return symbolStore{s.db, tenant, tenantPrefix(tenant)}
}

func (s symbolStore) AssignTenant(ctx context.Context, to string) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		var taken bool
		err := conn.QueryRowContext(ctx, `
			SELECT EXISTS (
				SELECT 1
				FROM canvasback_folders AS f
				JOIN canvasback_folders AS other ON other.name = ?1 || substr(f.name, ?2)
				WHERE f.tenant = ?3
			)`,
			tenantPrefix(to), len(s.prefix)+1, s.tenant,
		).Scan(&taken)
		if err == nil && taken {
			err = symbols.ErrFolderNameTaken
		}
		if err != nil {
			return err
		}
		_, err = conn.ExecContext(ctx, `
			UPDATE canvasback_folders
			SET tenant = ?, name = ? || substr(name, ?)
			WHERE tenant = ?`,
			to, tenantPrefix(to), len(s.prefix)+1, s.tenant,
		)
		if err == nil {
			_, err = conn.ExecContext(ctx, `UPDATE canvasback_trash SET tenant = ? WHERE tenant = ?`, to, s.tenant)
		}
		if err == nil {
			_, err = conn.ExecContext(ctx, `UPDATE canvasback_symbol_segments SET version = abs(random() / 2) + 1`)
		}
		return err
	})
}

// listVersion selects the version of the folder list of the tenant ?1. That of a tenant
// which never had a folder is 1.
func (s symbolStore) listVersion() string {
	if s.tenant == "" {
		return `(SELECT version FROM canvasback_folder_list WHERE ?1 = '')`
	}
	return `coalesce((SELECT version FROM canvasback_tenant_lists WHERE tenant = ?1), 1)`
}

func (s symbolStore) scanFolder(row *sql.Row) (symbols.Folder, error) {
	var folder symbols.Folder
	err := row.Scan(&folder.ID, &folder.Name, &folder.Version)
	if errors.Is(err, sql.ErrNoRows) {
		return symbols.Folder{}, symbols.ErrFolderNotFound
	}
	folder.Name = strings.TrimPrefix(folder.Name, s.prefix)
	return folder, err
}
