// Package fence executes statements that only a primary with its synchronous standby can
// commit.
//
// # What it promises
//
// If [Fence.Exec] returns no error for a fenced statement, a commit that includes the reads
// and writes of the statement has reached the standby. So the server was the primary when
// it read: a primary that its standby has replaced cannot make such a commit. It returns an
// error for a standby, and within a second for a read that nobody confirms. An error of a
// write may mean that the write has an effect, now or once the standby is back.
//
// A statement is fenced in [Always] mode, and in [Auto] mode if the server has
// synchronous_standby_names. A plain read would not do. PostgreSQL serves it without asking
// the standby, so a frozen manager leaves a primary that accepts revoked keys forever.
//
// # How it works
//
// The statement selects from [Server], which calls pg_logical_emit_message(true, ...). That
// adds a record to the WAL, in the transaction of the statement. The commit then waits for
// the standby, because Server also sets synchronous_commit for this transaction. The
// message has no content, and nothing decodes it. A standby cannot write WAL, so there
// Server calls nothing and reports the role.
//
// The wait has one gap. A cancel request, by a client or by pg_cancel_backend, and
// pg_terminate_backend end it: the transaction stays committed on this server alone, and
// the server reports success, preceded by a warning. pgx passes warnings only to the
// OnNotice of the application. So Exec exchanges the messages itself: Parse if the
// statement is not prepared, Bind, Describe, Execute, Sync. A warning from the source file
// syncrep.c of PostgreSQL makes it return an error. The text of the warning is localized,
// and its code is that of any warning. Server sets client_min_messages, so that the
// warning is sent.
//
// Owner: the goroutine that calls Exec owns the connection until Exec returns. Invariant: a
// connection whose exchange has not ended with ReadyForQuery is closed before Exec returns.
// If ctx ends, Exec closes the connection and sends a cancel request, as pgx does. Otherwise
// the server process would wait for the standby and hold its locks.
//
// # How to check a new major version of PostgreSQL
//
// Run the tests with postgres, initdb, pg_ctl and pg_basebackup of that version first in
// PATH:
//
//	PATH=/usr/lib/postgresql/19/bin:$PATH CI=true go test ./storage/postgres/... -run 'Exec|Fence|Failover|ValidateConnect'
//
// TestExec_WaitsForStandby fails if one of these no longer holds:
//
//   - A transactional logical message makes the commit of a read wait. LogLogicalMessage
//     (replication/logical/message.c) assigns a transaction id, and
//     RecordTransactionCommit (access/transam/xact.c) waits if there is one.
//   - The values of synchronous_commit are off, local, remote_write, on and remote_apply.
//     A new one that waits for more than "on" must be treated like remote_apply in Server.
//   - SyncRepWaitForLSN (replication/syncrep.c) reports an end of the wait without the
//     standby by ereport(WARNING), or ends the connection, and the file keeps its name.
//
// Then read the release notes for changes of synchronous_standby_names, of the protocol
// version that pgx negotiates, and of pg_is_in_recovery. Add the version to .ci/matrix.
package fence
