//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Signals that freeze and wake a process.
const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)

// account is the user that a server runs as: the current user, unless that is
// root, because PostgreSQL does not run as root.
type account struct {
	credential *syscall.Credential // nil for the current user
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
	return account{}, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// configure makes cmd run as the account, and in a session of its own, so that
// an interrupt from the terminal reaches only the test.
func (a account) configure(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential, Setsid: true}
}

// chown makes the account the owner of a file.
func (a account) chown(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// tempDir creates a directory that the account owns and can access: in TMPDIR if
// that is set, or else in memory, where creating the many files of a database is
// fastest, or else in the default directory.
func (a account) tempDir() (string, error) {
	parent := os.TempDir()
	if memory := memoryDir(); memory != "" && os.Getenv("TMPDIR") == "" {
		parent = memory
	}
	if a.credential != nil && !accessibleToAll(parent) {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "canvasback-pgtest-")
	if err != nil {
		return "", err
	}
	if err := a.chown(dir); err != nil {
		os.Remove(dir)
		return "", err
	}
	return dir, nil
}

// accessibleToAll reports whether all users may traverse a directory and its
// parents.
func accessibleToAll(dir string) bool {
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
