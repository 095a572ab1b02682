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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// errNoPrograms says that this machine cannot start a server.
var errNoPrograms = errors.New("no PostgreSQL programs on this machine")

// settings of a server whose data nobody needs after a crash of the machine.
// After a crash of the server itself they are: what it has acknowledged is
// written, though not to the disk.
const settings = `
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
max_wal_size = 128MB
fsync = off
full_page_writes = off
`

// watchdog ends a server when its input does, which is when the process that
// has started it closes the other end or dies. A frozen server must be woken
// for that.
const watchdog = `
cat >/dev/null
kill -CONT "$(head -n 1 "$1/data/postmaster.pid")"
"$2/pg_ctl" -D "$1/data" -m immediate stop
rm -rf "$1"
`

// cluster is a private server, running or not, with all its files.
type cluster struct {
	programs string // directory
	account  account
	dir      string
	address  url.URL

	guard *exec.Cmd      // runs the watchdog
	alive io.WriteCloser // its input
}

// newCluster starts a server.
func newCluster() (_ *cluster, err error) {
	programs, err := findPrograms()
	if err != nil {
		return nil, err
	}
	account, err := newAccount()
	if err != nil {
		return nil, err
	}
	dir, err := account.tempDir()
	if err != nil {
		return nil, err
	}
	c := &cluster{programs: programs, account: account, dir: dir}
	if err := c.watch(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := c.create(); err != nil {
		return nil, err
	}
	for range 3 { // somebody else may take the address in between
		if c.address.Host, err = freeAddress(); err != nil {
			return nil, err
		}
		if err = c.start(); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// findPrograms returns a directory with the programs of a server: one in the
// search path, else the newest version where Debian has them.
func findPrograms() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // fails for a malformed pattern only
	slices.SortFunc(debian, func(a, b string) int { return cmp.Compare(majorVersion(b), majorVersion(a)) })
	for _, dir := range append(dirs, debian...) {
		if hasPrograms(dir) {
			return dir, nil
		}
	}
	return "", errNoPrograms
}

// majorVersion reads the 15 of /usr/lib/postgresql/15/bin.
func majorVersion(dir string) float64 {
	version, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(dir)), 64)
	return version
}

func hasPrograms(dir string) bool {
	for _, name := range []string{"postgres", "initdb", "pg_ctl"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// watch starts the watchdog.
func (c *cluster) watch() (err error) {
	c.guard = c.command("/bin/sh", "-c", watchdog, "watchdog", c.dir, c.programs)
	if c.alive, err = c.guard.StdinPipe(); err != nil {
		return err
	}
	return c.guard.Start()
}

// close ends the server and removes its files.
func (c *cluster) close() {
	c.alive.Close()
	c.guard.Wait()
}

// create makes the data directory and all of the address but its host.
func (c *cluster) create() error {
	password := rand.Text()
	passwordFile := filepath.Join(c.dir, "password")
	if err := os.WriteFile(passwordFile, []byte(password), 0o600); err != nil {
		return err
	}
	if err := c.account.own(passwordFile); err != nil {
		return err
	}
	err := c.run("initdb",
		"--pgdata", c.data(),
		"--username", "postgres", "--pwfile", passwordFile, "--auth", "password",
		"--encoding", "UTF8", "--locale", "C",
		"--no-sync",
	)
	if err != nil {
		return err
	}
	config, err := os.OpenFile(filepath.Join(c.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = config.WriteString(settings)
	if err := errors.Join(err, config.Close()); err != nil {
		return err
	}
	c.address = url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("postgres", password),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return nil
}

// freeAddress returns an address of this machine that nobody listens on.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// start starts the server and waits until it answers.
func (c *cluster) start() error {
	log := filepath.Join(c.dir, "log")
	err := c.run("pg_ctl", "--pgdata", c.data(), "--log", log, "--wait", "--options", "-p "+c.address.Port(), "start")
	if err != nil {
		text, _ := os.ReadFile(log)
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}

// stop ends the server in one of the ways that pg_ctl has.
func (c *cluster) stop(mode string) error {
	return c.run("pg_ctl", "--pgdata", c.data(), "--mode", mode, "--wait", "stop")
}

// running reports whether the server runs.
func (c *cluster) running() bool {
	return c.run("pg_ctl", "--pgdata", c.data(), "status") == nil
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

// run runs one of the server's programs.
func (c *cluster) run(program string, args ...string) error {
	output, err := c.command(filepath.Join(c.programs, program), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, output)
	}
	return nil
}

// command prepares a program to be run from the account of the server, in its
// directory and without settings that are meant for others.
func (c *cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "PG") || strings.HasPrefix(variable, "LC_")
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	c.account.apply(cmd)
	return cmd
}

// processes returns the ids of the server's processes, the first one before
// those that it has started.
func (c *cluster) processes() ([]int, error) {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return nil, err
	}
	table, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	list := []int{postmaster}
	for line := range strings.Lines(string(table)) {
		var id, parent int
		if fmt.Sscan(line, &id, &parent); parent == postmaster {
			list = append(list, id)
		}
	}
	return list, nil
}
