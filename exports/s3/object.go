package s3

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"example.com/canvasback/exports"
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

// findObject returns the object at a URL. It reports false if the URL is not one of
// a bucket in [Options.Buckets]. The object may still not be allowed.
func (o *Opener) findObject(u *url.URL) (object, bool) {
	if u.Query().Has("X-Amz-Signature") {
		return object{}, false
	}
	version := u.Query().Get(versionID)
	for _, location := range o.locations {
		if u.Scheme == "s3" && u.Host == location.bucket {
			return object{location.bucket, strings.TrimPrefix(u.Path, "/"), version}, true
		}
		for _, e := range []endpoint{o.endpoint, o.public} {
			if key, ok := e.cutBucket(u, location.bucket); ok {
				return object{location.bucket, key, version}, true
			}
		}
	}
	return object{}, false
}

// checkObject returns the object at a URL if it may be opened. The error is an
// [exports.ForbiddenError].
func (o *Opener) checkObject(u *url.URL) (object, error) {
	found, ok := o.findObject(u)
	err := errors.New("the bucket is not allowed")
	if ok {
		err = o.check(u, found)
	}
	if err != nil {
		return object{}, &exports.ForbiddenError{Reason: err.Error()}
	}
	return found, o.fetcher.Check(o.endpoint.objectURL(found))
}

func (o *Opener) check(u *url.URL, found object) error {
	query, err := url.ParseQuery(u.RawQuery)
	versions := query[versionID]
	switch {
	case u.User != nil:
		return errors.New("the URL has user info")
	case u.Fragment != "":
		return errors.New("the URL has a fragment; write # in a key as %23")
	case u.RawQuery != "" && !o.versions:
		return errors.New("the URL has a query; write ? in a key as %3F")
	case err != nil, len(query) > 1, len(query) == 1 && (len(versions) != 1 || versions[0] == ""), u.ForceQuery:
		return errors.New("the URL has a query other than versionId; write ? in a key as %3F")
	}
	if err := checkKey(found.key); err != nil {
		return err
	}
	for _, location := range o.locations {
		if location.bucket == found.bucket && strings.HasPrefix(found.key, location.prefix) {
			return nil
		}
	}
	return errors.New("the prefix is not allowed")
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
