package fence

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// maxAge is how old a confirmation may be that another process has obtained. Until
	// there is a younger one, a question is repeated.
	maxAge   = 375 * time.Millisecond
	attempts = 3 // before a question waits for its own confirmation
	pause    = 50 * time.Millisecond

	// slow is how long questions take if the server is so far away that confirmations of
	// others are too old. The process then uses its own ones for slowPeriod.
	slow       = 40 * time.Millisecond
	slowPeriod = 10 * time.Second
)

// selectQuestion is selectServer for a question. It writes a message only if $2 is true,
// or if the published confirmation is old and no other question is writing a message. The
// process $3 that has published it renews it, and others do so if it is gone. Without LIMIT,
// default statistics would make the server plan the statement for each execution.
func selectQuestion(table string) string {
	return `
		SELECT
			standby,
			read_only,
			names,
			CASE WHEN writes THEN ` + setCommit + ` END,
			CASE WHEN writes THEN ` + writeMessage + ` END,
			pg_postmaster_start_time(),
			CASE WHEN ` + isFenced + ` THEN (pg_current_wal_insert_lsn() - '0/0')::bigint END,
			CASE WHEN started = pg_postmaster_start_time() THEN confirmed END
		FROM (
			SELECT
				*,
				CASE
				WHEN NOT (` + isFenced + `) THEN false
				WHEN $2::boolean THEN true
				WHEN started = pg_postmaster_start_time()
					AND clock_timestamp() - published_at BETWEEN '0'
						AND CASE publisher WHEN $3::bigint THEN interval '100 ms' ELSE '250 ms' END THEN false
				ELSE pg_try_advisory_xact_lock(hashtext('canvasback fence'), fence.tableoid::integer)
				END AS writes
			FROM ` + settings + `
			LEFT JOIN (SELECT *, tableoid FROM ` + table + ` LIMIT 1) AS fence ON true
		) AS decision`
}

// Ask executes a statement that reads. The server was the primary at some time after age
// before the call.
func (f *Fence) Ask(ctx context.Context, conn *pgx.Conn, s Statement) (result Result, age time.Duration, err error) {
	began, limit := time.Now(), maxAge
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)*3/4)
	}
	own := f.questions.needsOwn(began, limit)
	for attempt := 1; ; attempt++ {
		result, confirmed, err := f.ask(ctx, conn, s, own)
		if err != nil {
			return Result{}, 0, err
		}
		age := max(0, began.Sub(confirmed), began.Round(0).Sub(confirmed.Round(0))) // the monotonic clock ignores a suspension
		if age <= limit {
			return result, age, nil
		}
		if own = f.questions.areSlow() || attempt == attempts; !own {
			time.Sleep(pause)
		}
	}
}

// ask asks once. The server was the primary at some time after confirmed. If own is set, the
// question waits for its own confirmation, which it does not publish.
func (f *Fence) ask(ctx context.Context, conn *pgx.Conn, s Statement, own bool) (_ Result, confirmed time.Time, _ error) {
	asked := time.Now()
	args := []any{int32(f.options.Mode), own, f.process}
	result, server, err := f.exec(ctx, conn, s, Statement{Text: selectQuestion(f.options.Table), Args: args})
	if err != nil || server.position == nil { // not fenced
		return result, asked, err
	}
	if server.message == nil {
		confirmed = f.questions.lastConfirmed(server)
	} else if confirmed = asked; !own {
		f.publish(ctx, conn, server)
	}
	f.questions.add(question{asked, time.Since(asked), server.started, *server.position})
	return result, confirmed, nil
}

// publish publishes the confirmation of a message, without waiting for the standby. A
// failure is harmless.
func (f *Fence) publish(ctx context.Context, conn *pgx.Conn, server server) {
	requests, err := f.requests(ctx, conn, Statement{
		Text: `
			WITH setting AS (SELECT set_config('synchronous_commit', 'off', true))
			UPDATE ` + f.options.Table + `
			SET started = $1, confirmed = $2, publisher = $3, published_at = clock_timestamp()
			FROM setting`,
		Args: []any{server.started, *server.message, f.process},
	})
	if err == nil {
		exchange(ctx, conn.PgConn(), conn.TypeMap(), requests...)
	}
}

// questions are the last questions of this process: see the package comment.
type questions struct {
	mu       sync.Mutex
	list     []question
	ownUntil time.Time
}

type question struct {
	began    time.Time
	took     time.Duration
	started  time.Time // of the server process
	position int64     // of the WAL when the server responded
}

// needsOwn reports whether a question needs its own confirmation.
func (q *questions) needsOwn(now time.Time, limit time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list) == 0 || now.Sub(q.list[len(q.list)-1].began) > limit || now.Before(q.ownUntil)
}

// lastConfirmed returns when the last question began that the server has responded to before
// it wrote its confirmed message, or the zero time.
func (q *questions) lastConfirmed(server server) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, asked := range slices.Backward(q.list) {
		if server.confirmed != nil && asked.started.Equal(server.started) && asked.position < *server.confirmed {
			return asked.began
		}
	}
	return time.Time{}
}

// add adds a question, and removes those that began a second before.
func (q *questions) add(last question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, func(asked question) bool { return last.began.Sub(asked.began) > time.Second })
	q.list = append(q.list, last)
}

// areSlow reports whether all questions are slow.
func (q *questions) areSlow() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if slices.ContainsFunc(q.list, func(asked question) bool { return asked.took < slow }) {
		return false
	}
	q.ownUntil = time.Now().Add(slowPeriod)
	return true
}
