//go:build !unix

package pgtest

import (
	"fmt"
	"os/exec"
	"runtime"
)

// signal stands for what there is on Unix only.
type signal int

const (
	pause signal = iota
	resume
)

type account struct{}

func newAccount() (account, error) {
	return account{}, fmt.Errorf("%w that are used on %s", errNoPrograms, runtime.GOOS)
}

func (account) apply(*exec.Cmd) {}

func (account) own(string) error { return nil }

func (account) tempDir() (string, error) { return "", nil }

func (*cluster) signal(signal) error { return nil }
