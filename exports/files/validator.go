package files

import (
	"fmt"
	"io/fs"
	"time"
)

const (
	// fineResolution is twice the resolution of timestamps on Linux, which is
	// that of the timer interrupt: 10 ms or less.
	fineResolution = 20 * time.Millisecond

	// coarseResolution is that of file systems without fractions of a second.
	// FAT stores steps of two seconds.
	coarseResolution = 2 * time.Second
)

// embeddedFile is a file of an [embed.FS], which has no modification time.
type embeddedFile struct {
	fs.File
	info fs.FileInfo
}

func (f embeddedFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// embeddedInfo describes an embeddedFile. Its digest is that of the content.
type embeddedInfo struct {
	fs.FileInfo
	digest string
}

// validator returns the Validator of a file: device, inode, size, modification
// time and change time, or else size and modification time; or the digest of an
// embeddedFile. It is empty if there are no times. It must not be used before the
// returned time has passed, because another change could still get the same timestamps.
func validator(info fs.FileInfo) (v string, wait time.Duration) {
	if embedded, ok := info.(embeddedInfo); ok {
		return embedded.digest, 0
	}
	modified, resolution := info.ModTime(), coarseResolution
	if modified.IsZero() {
		return "", 0
	}
	v = fmt.Sprintf("%x-%x", info.Size(), modified.UnixNano())
	if device, inode, changed, ok := statOf(info); ok {
		v = fmt.Sprintf("%x-%x-%s-%x", device, inode, v, changed.UnixNano())
		modified = changed // also after the modification time was set
		if changed.Nanosecond() != 0 {
			resolution = fineResolution
		}
	}
	return v, max(0, resolution-time.Since(modified))
}
