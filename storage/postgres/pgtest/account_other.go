//go:build !unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// Unused: newAccount returns an error on this platform.
var pauseSignal, resumeSignal os.Signal

type account struct{}

func newAccount() (account, error) {
	return account{}, fmt.Errorf("%w: %s is not supported", errNoPrograms, runtime.GOOS)
}

func (account) configure(*exec.Cmd) {}

func (account) chown(string) error { return nil }

func (account) tempDir() (string, error) { return "", nil }
