package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"example.com/canvasback/symbols"
)

// constraintErrors are the sentinels that violated constraints stand for.
var constraintErrors = map[string]error{
	"canvasback_folders_name_key":       symbols.ErrFolderNameTaken,
	"canvasback_symbols_folder_id_fkey": symbols.ErrFolderNotFound,
}

// mapConstraint returns the sentinel of the constraint that err violates, or
// err itself.
func mapConstraint(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		if sentinel, ok := constraintErrors[pgErr.ConstraintName]; ok {
			return sentinel
		}
	}
	return err
}

// isRetryable reports whether err is a serialization failure or a deadlock.
func isRetryable(err error) bool {
	const (
		serializationFailure = "40001"
		deadlockDetected     = "40P01"
	)
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == serializationFailure || pgErr.Code == deadlockDetected)
}
