// Package fence executes statements that only a primary with its synchronous standby can
// commit.
//
// # What it promises
//
// If [Fence.Exec] returns no error, the standby has confirmed the commit of the statement,
// or of the transaction that it ends, if the server has synchronous_standby_names. On a
// fenced server this holds for statements that only read too. So the server was the primary
// when it read: a primary that its standby has replaced cannot make such a commit. Exec
// returns an error for a standby, and within a second for a read that nobody confirms. An
// error of a write may mean that the write has an effect, now or once the standby is back.
//
// A server is fenced in [Always] mode, and in [Auto] mode if it has
// synchronous_standby_names. A plain read would not do. PostgreSQL serves it without asking
// the standby, so a frozen manager leaves a primary that accepts revoked keys forever.
//
// # How it works
//
// Exec sends two statements in one transaction and one round trip. The first one,
// selectServer, reads the role of the server and calls pg_logical_emit_message(true, ...).
// That adds a record to the WAL, so that the commit waits for the standby, because the
// statement also sets synchronous_commit for this transaction. The message has no content,
// and nothing decodes it. A standby cannot write WAL, so there the statement only reports
// the role.
//
// The wait has one gap. A cancel request, by a client or by pg_cancel_backend, and
// pg_terminate_backend end it: the transaction stays committed on this server alone, and
// the server reports success, preceded by a warning. pgx passes warnings only to the
// OnNotice of the application. So Exec exchanges the messages itself: Parse if the
// statement is not prepared, Bind, Describe and Execute of both statements, Sync. A warning
// from the source file syncrep.c of PostgreSQL makes it return an error. The text of the
// warning is localized, and its code is that of any warning. selectServer sets
// client_min_messages, so that the warning is sent.
//
// # Shared confirmations
//
// [Fence.Ask] is for a question that all processes repeat. If each waited for a commit,
// 1,000 processes would use 10,000 transaction ids a second. So one of them waits, and
// publishes in the row of a table where in the WAL its message ends. The others read that
// row and the current position of the WAL, without writing. A process that was shown a
// position before the end of a message asked before the message was written, and the
// standby has confirmed the message. So the server was the primary after that question
// began, at most about 300 ms ago.
//
// A message is published only after its commit was confirmed, by a second transaction:
// the row of a canceled commit would be visible. The row names the server process by its
// start, because positions of another server mean nothing. Clocks decide only who writes
// the next message.
//
// # Why all named standbys
//
// A fence holds if no standby can be promoted that has not confirmed it. With ANY 1 (b, c)
// or FIRST 1 (b, c) none can hold, whatever the question is. Let b be promoted while c
// still follows the primary a. Then a and c see the same as if b were only unreachable, so a
// question without b accepts what b has revoked, and one with b fails whenever b is
// unreachable. A lease row is such a question, and a commit that only c has confirmed is lost
// on b. Whether quorums intersect cannot be seen from a, so the state is [Partial].
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
// TestExec_WaitsForStandby fails if a transactional logical message no longer makes the
// commit of a read wait (RecordTransactionCommit in access/transam/xact.c), if
// synchronous_commit has a new value above "on", which selectServer must treat like
// remote_apply, or if SyncRepWaitForLSN in replication/syncrep.c reports the end of a wait in
// another way. Then read the release notes for changes of synchronous_standby_names, of
// the protocol version that pgx negotiates, and of pg_is_in_recovery. Add the version to
// .ci/matrix.
package fence
