//go:build !linux

package pgtest

import (
	"fmt"
	"os/exec"
	"strings"
)

func childProcesses(of int) (children []int, err error) {
	table, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	for line := range strings.Lines(string(table)) {
		var id, parent int
		if fmt.Sscan(line, &id, &parent); parent == of {
			children = append(children, id)
		}
	}
	return children, nil
}
