package postgres

import (
	"errors"

	"example.com/canvasback/symbols"
	"github.com/jackc/pgx/v5/pgconn"
)

// violations are the constraints whose violation has a name in a contract.
var violations = map[string]error{
	"canvasback_folders_name_key":       symbols.ErrFolderNameTaken,
	"canvasback_symbols_folder_id_fkey": symbols.ErrFolderNotFound,
}

// translate gives an error the name that it has in a contract, if it has one.
func translate(err error) error {
	if violated, ok := errors.AsType[*pgconn.PgError](err); ok {
		if named, ok := violations[violated.ConstraintName]; ok {
			return named
		}
	}
	return err
}

// brokenOff reports whether nothing is wrong with a transaction but that it
// met another one.
func brokenOff(err error) bool {
	const (
		serializationFailure = "40001"
		deadlockDetected     = "40P01"
	)
	failed, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (failed.Code == serializationFailure || failed.Code == deadlockDetected)
}

// unsent reports whether a statement failed before any of it was sent.
func unsent(err error) bool { return pgconn.SafeToRetry(err) }
