package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// childProcesses reads /proc, because slim containers lack ps.
func childProcesses(of int) (children []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		stat := string(text) // "15 (name) S 1 ...": id, name, state, parent
		var id, parent int
		var state string
		fmt.Sscan(stat, &id)
		if fmt.Sscan(stat[strings.LastIndexByte(stat, ')')+1:], &state, &parent); parent == of {
			children = append(children, id)
		}
	}
	return children, nil
}
