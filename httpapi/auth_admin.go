package httpapi

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// checkAdmin authenticates a request to an admin route. The limit of a client IP
// holds for right keys too: beyond it a guess does not reveal whether it is right.
func (a *API) checkAdmin(w *response, r *http.Request) error {
	_, values := w.credentials()
	err := a.admin.check(values)
	if err != nil && err != errAdminKeyWrong {
		return err
	}
	return cmp.Or(a.limiter.take(a.limiter.clientIP(r), err != nil), err)
}

// adminKeys are the accepted admin keys, as SHA-256 digests.
type adminKeys struct{ digests [][sha256.Size]byte }

// newAdminKeys ignores empty keys.
func newAdminKeys(list []string) *adminKeys {
	k := new(adminKeys)
	for _, key := range list {
		if key != "" {
			k.digests = append(k.digests, sha256.Sum256([]byte(key)))
		}
	}
	return k
}

// check returns nil if values, those of the x-admin-key header, are one accepted
// key. It compares digests, and all of them: the time it takes depends neither on
// the length of a key nor on the first difference.
func (k *adminKeys) check(values []string) error {
	if len(k.digests) == 0 {
		return errAdminOff
	}
	if len(values) != 1 {
		return errAdminKeyMissing
	}
	given := sha256.Sum256([]byte(values[0]))
	match := 0
	for _, digest := range k.digests {
		match |= subtle.ConstantTimeCompare(digest[:], given[:])
	}
	if match != 1 {
		return errAdminKeyWrong
	}
	return nil
}
