package s3

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	versionID    = "versionId"
	maxKeyLength = 1024 // bytes
)

type object struct {
	bucket, key string
	version     string // empty for the current one
}

// location is an entry of [Options.Buckets].
type location struct{ bucket, prefix string }

var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]$`)

func parseLocation(entry string) (location, error) {
	bucket, prefix, _ := strings.Cut(entry, "/")
	switch {
	case !bucketName.MatchString(bucket), strings.Contains(bucket, ".."):
		return location{}, fmt.Errorf("s3: invalid Buckets entry %q: invalid bucket name", entry)
	case prefix != "" && checkKey(prefix+"x") != nil:
		return location{}, fmt.Errorf("s3: invalid Buckets entry %q: no key has the prefix", entry)
	}
	return location{bucket, prefix}, nil
}

func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("the URL names no object")
	case len(key) > maxKeyLength:
		return fmt.Errorf("the key has more than %d bytes", maxKeyLength)
	case !utf8.ValidString(key):
		return errors.New("the key is not valid UTF-8")
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "." || segment == ".." {
			return errors.New(`the key has a segment "." or ".."`)
		}
	}
	return nil
}
