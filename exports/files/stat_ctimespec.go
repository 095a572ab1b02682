//go:build darwin || freebsd || netbsd

package files

import (
	"io/fs"
	"syscall"
	"time"
)

// statOf is described in stat_ctim.go.
func statOf(info fs.FileInfo) (inode uint64, changed time.Time, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, time.Time{}, false
	}
	return uint64(stat.Ino), time.Unix(stat.Ctimespec.Unix()), true
}
