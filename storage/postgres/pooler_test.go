//go:build linux

package postgres_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
)

const poolerConfig = `
[databases]
* = host=%[1]s port=%[2]s user=%[3]s password=%[4]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[5]s
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = 5
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
`

// startPooler starts PgBouncer in transaction mode in front of a server, and returns the
// URL through it. It skips the test if there is no PgBouncer of version 1.oldest or later.
// Prepared statements are kept from 1.21 on.
func startPooler(t *testing.T, dsn string, keepsStatements bool, oldest int) string {
	t.Helper()
	is := is.New(t)
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("no pgbouncer on this machine")
	}
	version := must(exec.Command(program, "--version").Output())(t)
	var major, minor int
	must(fmt.Sscanf(string(version), "PgBouncer %d.%d", &major, &minor))(t)
	if major == 1 && minor < oldest {
		t.Skipf("PgBouncer is older than 1.%d", oldest)
	}
	setting := ""
	if major > 1 || minor >= 21 {
		setting = fmt.Sprintf("max_prepared_statements = %d", map[bool]int{true: 200}[keepsStatements])
	}
	through := must(url.Parse(dsn))(t)
	dir := must(os.MkdirTemp("", "canvasback-pooler-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	credential := postgresAccount(t)
	if credential != nil {
		is.NoErr(os.Chown(dir, int(credential.Uid), int(credential.Gid)))
	}
	password, _ := through.User.Password()
	port := freePort(t)
	config := fmt.Sprintf(poolerConfig, through.Hostname(), through.Port(), through.User.Username(), password, port) + setting
	is.NoErr(os.WriteFile(filepath.Join(dir, "pgbouncer.ini"), []byte(config), 0o644))
	startProcess(t, exec.Command(program, filepath.Join(dir, "pgbouncer.ini")), credential, filepath.Join(dir, "log"))
	through.Host = "127.0.0.1:" + port
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		conn, err := pgx.Connect(t.Context(), through.String())
		if err == nil {
			conn.Close(t.Context())
			return through.String()
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
}

// syncBuffer is a buffer for concurrent use.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// TestStorage_PassesBehindPooler runs the contracts behind a pooler, without a parameter
// in the URL, in a database with settings for other applications.
func TestStorage_PassesBehindPooler(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	for oldest, keepsStatements := range map[int]bool{21: true, 0: false} {
		t.Run(fmt.Sprint(keepsStatements), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dsn := pgtest.Database(t)
			for _, setting := range []string{"bytea_output TO escape", "DateStyle TO German"} {
				execute(t, connect(t, dsn), `ALTER DATABASE `+strings.TrimPrefix(must(url.Parse(dsn))(t).Path, "/")+` SET `+setting)
			}
			var log syncBuffer
			s := newSchemas(connect(t, startPooler(t, dsn, keepsStatements, oldest)))
			open := func(fence postgres.Fence) func(testing.TB) storagetest.Harness {
				return func(t testing.TB) storagetest.Harness {
					options := s.take(t)
					options.Fence, options.Logger = fence, slog.New(slog.NewTextHandler(&log, nil))
					reopen := func() storagetest.Storage { return must(postgres.New(s.pool, options))(t) }
					return storagetest.Harness{Storage: reopen(), Reopen: reopen}
				}
			}
			t.Run("contracts", func(t *testing.T) {
				storagetest.Run(t, open(postgres.FenceAuto))
				storagetest.RunConcurrent(t, open(postgres.FenceAlways))
			})
			is.Equal(strings.Contains(log.String(), "pooler loses prepared statements"), !keepsStatements)
		})
	}
}

// TestStorage_PoolerSurvivesFaults cancels calls that wait for a lost standby behind a
// pooler, which must not end, as 1.18 does.
func TestStorage_PoolerSurvivesFaults(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	for _, keepsStatements := range []bool{true, false} {
		t.Run(fmt.Sprint(keepsStatements), func(t *testing.T) {
			t.Parallel()
			pair, _ := startFenced(t)
			pool := connectWith(t, startPooler(t, pair.Primary.DSN(), keepsStatements, 21)+"&pool_max_conns=10", postgres.ConfigurePool)
			db := must(postgres.New(pool, nil))(t)
			wantAvailable(t, db.Keys())
			for range 3 {
				pair.Standby.Pause()
				for range 5 {
					wantUnavailable(t, db.Keys(), 300*time.Millisecond)
				}
				pair.Standby.Resume()
				wantAvailable(t, db.Keys())
			}
			storagetest.RunUnconfirmed(t, db, pair.Standby.Pause, 300*time.Millisecond)
			pair.Standby.Resume()
			wantAvailable(t, db.Keys())
		})
	}
}
