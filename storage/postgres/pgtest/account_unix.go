//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Signals that freeze and wake a process.
const (
	pause  = syscall.SIGSTOP
	resume = syscall.SIGCONT
)

// account is whom a server runs as: the one who runs the test, or somebody
// else if that is root, who must not.
type account struct {
	credential *syscall.Credential // nil: the one who runs the test
}

func newAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return account{}, err
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			return account{}, err
		}
		return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, errors.New("root cannot run PostgreSQL, and there is no user postgres or nobody")
}

// apply makes cmd run from the account, in a session of its own: the keys that
// interrupt a test must not reach it.
func (a account) apply(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential, Setsid: true}
}

// own gives a file to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// tempDir makes a directory of the account's own that it can reach: where TMPDIR
// says, else in memory, where the many files of a database are soonest made and
// removed, else where others are.
func (a account) tempDir() (string, error) {
	parent := os.TempDir()
	if memory := memoryDir(); memory != "" && os.Getenv("TMPDIR") == "" {
		parent = memory
	}
	if a.credential != nil && !openToAll(parent) {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "canvasback-pgtest-")
	if err != nil {
		return "", err
	}
	if err := a.own(dir); err != nil {
		os.Remove(dir)
		return "", err
	}
	return dir, nil
}

// openToAll reports whether everybody may pass through a directory and those
// above it.
func openToAll(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// signal sends a signal to all processes of the server. The first one gets it
// first, so that while it is frozen it starts no others.
func (c *cluster) signal(signal syscall.Signal) error {
	list, err := c.processes()
	if err != nil {
		return err
	}
	if err := syscall.Kill(list[0], signal); err != nil {
		return fmt.Errorf("signal server: %w", err)
	}
	if list, err = c.processes(); err != nil {
		return err
	}
	for _, id := range list[1:] {
		if err := syscall.Kill(id, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal server: %w", err)
		}
	}
	return nil
}
