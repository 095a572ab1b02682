package pgtest

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

var errNoPrograms = errors.New("no PostgreSQL programs on this machine")

// settings make a server fast whose data need not survive a crash of the
// machine. Acknowledged writes still survive a crash of the server: they are in
// the page cache.
const settings = `
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
max_wal_size = 128MB
fsync = off
full_page_writes = off
jit = off
`

// watchdogScript stops a server and removes its files at the end of its input,
// that is, when the test process closes the pipe or ends. It resumes the server
// first, because a frozen one does not stop. Signals to the process group are for the
// test process.
const watchdogScript = `
trap '' HUP INT QUIT TERM
cat >/dev/null
if [ -e data/postmaster.pid ]; then
	kill -CONT "$(head -n 1 data/postmaster.pid)"
	pg_ctl -D data -m immediate stop
fi
rm -rf "$PWD"
`

// directoryScript creates a directory: in TMPDIR if that is set, or else in memory with
// 2 GiB free, where creating the many files of a database is fastest, or else in /tmp.
const directoryScript = `
memory=$(df -Pk /dev/shm 2>/dev/null | awk '$6 == "/dev/shm" && $4 > 2097152 { print $6 }')
for parent in "${TMPDIR:-$memory}" /tmp; do
	[ -n "$parent" ] && TMPDIR=$parent mktemp -d && exit
done
exit 1
`

// signalScript sends a signal to all processes of the server. It freezes the postmaster
// first, which then neither starts a process nor misses the end of one.
const signalScript = `
postmaster=$(head -n 1 data/postmaster.pid) && kill -STOP "$postmaster" || exit
children=$(cat "/proc/$postmaster/task/$postmaster/children" 2>/dev/null || pgrep -P "$postmaster")
kill -"$0" $children "$postmaster" || true # one may have ended
`

// cluster is a private server, running or stopped, with its files.
type cluster struct {
	programs string   // directory
	account  []string // command that runs another one as the account of the server
	dir      string
	url      url.URL

	watchdog      *exec.Cmd
	watchdogInput io.WriteCloser
}

// startCluster starts a server with the data directory that initialize creates.
func startCluster(initialize func(*cluster) error) (*cluster, error) {
	c, err := newCluster(initialize)
	if err != nil {
		return nil, err
	}
	for range 3 { // another process may take the address in between
		if c.url.Host, err = freeAddress(); err == nil {
			err = c.start()
		}
		if err == nil {
			return c, nil
		}
	}
	c.close()
	return nil, err
}

// newCluster returns a cluster with the data directory that initialize creates, in a
// directory that its watchdog removes.
func newCluster(initialize func(*cluster) error) (c *cluster, err error) {
	c = new(cluster)
	if c.programs, err = findPrograms(); err != nil {
		return nil, err
	}
	if c.account, err = findAccount(); err != nil {
		return nil, err
	}
	dir, err := c.command("sh", "-c", directoryScript).Output()
	if err != nil {
		return nil, fmt.Errorf("create a directory: %w", err)
	}
	c.dir = strings.TrimSpace(string(dir))
	c.watchdog = c.command("sh", "-c", watchdogScript)
	if c.watchdogInput, err = c.watchdog.StdinPipe(); err == nil {
		err = c.watchdog.Start()
	}
	if err != nil {
		os.RemoveAll(c.dir)
		return nil, err
	}
	if err := initialize(c); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// findPrograms returns the directory of the server's programs: one in PATH, or
// else the newest version that Debian packages have installed.
func findPrograms() (string, error) {
	if runtime.GOOS == "windows" {
		return "", errNoPrograms
	}
	dirs, _ := filepath.Glob("/usr/lib/postgresql/[1-9][0-9]/bin") // fails only for a malformed pattern
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, dir := range slices.Backward(dirs) {
		if _, err := exec.LookPath(filepath.Join(dir, "postgres")); err == nil {
			return dir, nil
		}
	}
	return "", errNoPrograms
}

// findAccount returns a command that runs another one as the user of a server: none for
// the current user, unless that is root, because PostgreSQL does not run as root.
func findAccount() ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			return []string{"setpriv", "--reuid", found.Uid, "--regid", found.Gid, "--clear-groups"}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

func (c *cluster) close() {
	c.watchdogInput.Close()
	c.watchdog.Wait()
}

// initialize creates the data directory and sets the URL, except for its host. The
// directory is a copy of one that initdb creates once in a process.
func (c *cluster) initialize() error {
	from, err := initialized()
	if err != nil {
		return err
	}
	c.url = from.url
	return c.run("cp", "-Rp", from.data(), c.data())
}

// initialized returns a cluster that is never started. Its watchdog removes it at the
// end of the process.
var initialized = sync.OnceValues(func() (*cluster, error) { return newCluster((*cluster).initdb) })

func (c *cluster) initdb() error {
	password := rand.Text()
	if err := c.write("password", password); err != nil {
		return err
	}
	c.url = url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("postgres", password),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	err := c.run("initdb",
		"--pgdata", c.data(),
		"--username", "postgres", "--pwfile", "password", "--auth", "md5",
		"--encoding", "UTF8", "--locale", "C",
		"--no-sync",
	)
	if err != nil {
		return err
	}
	return c.configure(settings)
}

func (c *cluster) configure(settings string) error { return c.write("data/postgresql.conf", settings) }

func (c *cluster) write(file, text string) error {
	tee := c.command("tee", "-a", file)
	tee.Stdin = strings.NewReader(text)
	if err := tee.Run(); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// start starts the server, after stopping it if it runs, and waits until it accepts
// connections.
func (c *cluster) start() error {
	log := filepath.Join(c.dir, "log")
	err := c.run("pg_ctl", "--pgdata", c.data(), "--log", log, "--wait", "--options", "-p "+c.url.Port(), "restart")
	if err != nil {
		text, _ := os.ReadFile(log)
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}

func (c *cluster) stop(mode string) error {
	return c.run("pg_ctl", "--pgdata", c.data(), "--mode", mode, "--wait", "stop")
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *cluster) run(program string, args ...string) error {
	output, err := c.command(program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, output)
	}
	return nil
}

// command returns a command that runs as the account of the server, in its directory, with
// the programs of the server first in PATH, and without inherited settings for PostgreSQL
// clients and locales.
func (c *cluster) command(name string, args ...string) *exec.Cmd {
	path := "PATH=" + c.programs + ":" + os.Getenv("PATH")
	args = slices.Concat(c.account, []string{"env", path, name}, args)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = cmp.Or(c.dir, "/")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "PG") || strings.HasPrefix(variable, "LC_")
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	return cmd
}

func (c *cluster) signal(name string) error { return c.run("sh", "-c", signalScript, name) }
