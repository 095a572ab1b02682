package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"example.com/canvasback/exports"
	"example.com/canvasback/symbols"
)

// constraintErrors are the sentinels that violated constraints stand for.
var constraintErrors = map[string]error{
	"canvasback_folders_name_key":       symbols.ErrFolderNameTaken,
	"canvasback_symbols_folder_id_fkey": symbols.ErrFolderNotFound,

	"canvasback_exports_source_digest_key": exports.ErrTaken, // of AssignTenant
}

const uniqueViolation = "23505"

// mapConstraint returns the sentinel of the constraint that err violates, or
// err itself.
func mapConstraint(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		if sentinel, ok := constraintErrors[pgErr.ConstraintName]; ok && strings.HasPrefix(pgErr.Code, "23") {
			return sentinel
		}
		if pgErr.Code == uniqueViolation && strings.HasSuffix(pgErr.ConstraintName, "_pkey") {
			return fmt.Errorf("postgres: the sequence of the ids is behind them, as after logical replication; set it with setval: %w", err)
		}
	}
	return err
}

// isRetryable reports whether err is a serialization failure, a deadlock, or the digest of a
// key that another transaction has just committed, which the next attempt then reads.
func isRetryable(err error) bool {
	const serializationFailure, deadlockDetected, takenDigest = "40001", "40P01", "canvasback_keys_digest_key"
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == serializationFailure || pgErr.Code == deadlockDetected || pgErr.ConstraintName == takenDigest)
}

// explainCanceled adds to the error of a canceled statement where it was, for example which
// row of which table an operator's transaction had locked. The server tells that only if
// the pool cancels statements, as with [pgconn.CancelRequestContextWatcherHandler].
func explainCanceled(err error) error {
	const queryCanceled = "57014"
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == queryCanceled && pgErr.Where != "" {
		where, _, _ := strings.Cut(pgErr.Where, "\n")
		return fmt.Errorf("%s: %w", where, err)
	}
	return err
}
