package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"example.com/canvasback/storage/postgres/internal/fence"
)

// validateTimeout bounds ValidateConnect.
const validateTimeout = time.Second

// ValidateConnect accepts only connections to a writable primary, and if that has
// synchronous_standby_names, only if it can commit with its standby. It returns an
// error for another server, after a second at most. pgx then connects to the next
// host of the URL. It replaces target_session_attrs=read-write, which accepts a
// primary that its standby has replaced:
//
//	config.ConnConfig.ValidateConnect = postgres.ValidateConnect
func ValidateConnect(ctx context.Context, conn *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	return fence.Validate(ctx, conn)
}
