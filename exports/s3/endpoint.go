package s3

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/aws/smithy-go/encoding/httpbinding"
)

type endpoint struct {
	scheme      string
	host        string // in lower case, without the default port
	path        string // unescaped, without a slash at its end
	virtualHost bool   // the bucket is part of the host
}

func parseEndpoint(text string, virtualHost bool) (endpoint, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return endpoint{}, errors.New("it is not an absolute http or https URL")
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return endpoint{}, errors.New("it has user info, a query or a fragment")
	}
	return endpoint{u.Scheme, canonicalHost(u), strings.TrimRight(u.Path, "/"), virtualHost}, nil
}

// canonicalHost returns the host and port of a URL in lower case, without a
// trailing dot and the default port of the scheme.
func canonicalHost(u *url.URL) string {
	host, standard := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), defaultPorts[u.Scheme]
	return strings.TrimSuffix(net.JoinHostPort(host, cmp.Or(u.Port(), standard)), ":"+standard)
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// dnsLabel matches buckets that can be a label of a host. A dot would not match the
// wildcard of a certificate.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// bucketURL returns the URL of a bucket without a slash at its end.
func (e endpoint) bucketURL(bucket string, virtualHost bool) (host, path string) {
	if virtualHost && dnsLabel.MatchString(bucket) {
		return bucket + "." + e.host, e.path
	}
	return e.host, e.path + "/" + bucket
}

func (e endpoint) objectURL(o object) *url.URL {
	host, path := e.bucketURL(o.bucket, e.virtualHost)
	path += "/" + o.key
	escaped := httpbinding.EscapePath(path, false) // as signatures require; [url.URL.EscapedPath] escapes less
	u := &url.URL{Scheme: e.scheme, Host: host, Path: path, RawPath: escaped}
	if o.version != "" {
		u.RawQuery = url.Values{versionID: {o.version}}.Encode()
	}
	return u
}

// cutBucket returns the key in the URL of an object of a bucket, in either form. It
// reports false if the URL is not one of the bucket.
func (e endpoint) cutBucket(u *url.URL, bucket string) (key string, ok bool) {
	if u.Scheme != e.scheme {
		return "", false
	}
	for _, virtualHost := range []bool{false, true} {
		host, path := e.bucketURL(bucket, virtualHost)
		if key, ok = strings.CutPrefix(u.Path, path+"/"); ok && host == canonicalHost(u) {
			return key, true
		}
	}
	return "", false
}

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
