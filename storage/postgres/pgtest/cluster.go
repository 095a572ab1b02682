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
	"sync"
)

// errNoPrograms reports that this machine has no programs of a server.
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
// first, because a frozen one does not stop.
const watchdogScript = `
cat >/dev/null
if [ -e "$1/data/postmaster.pid" ]; then
	kill -CONT "$(head -n 1 "$1/data/postmaster.pid")"
	"$2/pg_ctl" -D "$1/data" -m immediate stop
fi
rm -rf "$1"
`

// cluster is a private server, running or stopped, with its files.
type cluster struct {
	programs string // directory
	account  account
	dir      string
	url      url.URL

	watchdog      *exec.Cmd
	watchdogInput io.WriteCloser
}

// startCluster starts a server with the data directory that initialize creates.
func startCluster(initialize func(*cluster) error) (_ *cluster, err error) {
	c, err := newFiles()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := initialize(c); err != nil {
		return nil, err
	}
	for range 3 { // another process may take the address in between
		if c.url.Host, err = freeAddress(); err != nil {
			return nil, err
		}
		if err = c.start(); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// newFiles returns a cluster with an empty directory, which its watchdog removes.
func newFiles() (*cluster, error) {
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
	if err := c.startWatchdog(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return c, nil
}

// findPrograms returns the directory of the server's programs: one in PATH, or
// else the newest version that Debian packages have installed.
func findPrograms() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // fails only for a malformed pattern
	slices.SortFunc(debian, func(a, b string) int { return cmp.Compare(majorVersion(b), majorVersion(a)) })
	for _, dir := range append(dirs, debian...) {
		if hasPrograms(dir) {
			return dir, nil
		}
	}
	return "", errNoPrograms
}

// majorVersion returns 15 for /usr/lib/postgresql/15/bin.
func majorVersion(dir string) float64 {
	version, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(dir)), 64)
	return version
}

func hasPrograms(dir string) bool {
	for _, name := range []string{"postgres", "initdb", "pg_ctl", "pg_basebackup"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func (c *cluster) startWatchdog() (err error) {
	c.watchdog = c.command("/bin/sh", "-c", watchdogScript, "watchdog", c.dir, c.programs)
	if c.watchdogInput, err = c.watchdog.StdinPipe(); err != nil {
		return err
	}
	return c.watchdog.Start()
}

// close stops the server and removes its files.
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
	if output, err := c.command("cp", "-Rp", from.data(), c.data()).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w\n%s", err, output)
	}
	c.url = from.url
	return nil
}

// initialized returns a cluster that is never started. Its watchdog removes it at the
// end of the process.
var initialized = sync.OnceValues(func() (*cluster, error) {
	c, err := newFiles()
	if err != nil {
		return nil, err
	}
	if err := c.initdb(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
})

func (c *cluster) initdb() error {
	password := rand.Text()
	passwordFile := filepath.Join(c.dir, "password")
	if err := os.WriteFile(passwordFile, []byte(password), 0o600); err != nil {
		return err
	}
	if err := c.account.chown(passwordFile); err != nil {
		return err
	}
	err := c.run("initdb",
		"--pgdata", c.data(),
		"--username", "postgres", "--pwfile", passwordFile, "--auth", "md5",
		"--encoding", "UTF8", "--locale", "C",
		"--no-sync",
	)
	if err != nil {
		return err
	}
	if err := c.configure(settings); err != nil {
		return err
	}
	c.url = url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("postgres", password),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return nil
}

// configure appends settings to those of the server.
func (c *cluster) configure(settings string) error {
	config, err := os.OpenFile(filepath.Join(c.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = config.WriteString(settings)
	return errors.Join(err, config.Close())
}

// freeAddress returns an unused TCP address on the loopback interface.
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

// stop stops the server in a shutdown mode of pg_ctl.
func (c *cluster) stop(mode string) error {
	return c.run("pg_ctl", "--pgdata", c.data(), "--mode", mode, "--wait", "stop")
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

// run runs one of the programs of the server.
func (c *cluster) run(program string, args ...string) error {
	output, err := c.command(filepath.Join(c.programs, program), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, output)
	}
	return nil
}

// command returns a command that runs as the account of the server, in its
// directory, without inherited settings for PostgreSQL clients and locales.
func (c *cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "PG") || strings.HasPrefix(variable, "LC_")
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	c.account.configure(cmd)
	return cmd
}

// signal sends a signal to all processes of the server. The postmaster receives
// it first, because a frozen postmaster starts no further processes.
func (c *cluster) signal(signal os.Signal) error {
	postmaster, err := c.postmaster()
	if err != nil {
		return err
	}
	if err := sendSignal(postmaster, signal); err != nil {
		return err
	}
	children, err := childProcesses(postmaster)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := sendSignal(child, signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	return nil
}

// postmaster returns the id of the first process of the server.
func (c *cluster) postmaster() (int, error) {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(first)
}

func sendSignal(id int, signal os.Signal) error {
	process, err := os.FindProcess(id) // fails only on Windows
	if err != nil {
		return err
	}
	defer process.Release()
	if err := process.Signal(signal); err != nil {
		return fmt.Errorf("send %v to process %d: %w", signal, id, err)
	}
	return nil
}
