// Package keyrecord is what the drivers share about client keys.
package keyrecord

import (
	"bytes"
	"slices"

	"example.com/canvasback/keys"
)

// Change calls change with keys as they are stored, and returns those that it has
// modified. It undoes changes of what an update does not store.
func Change(list []keys.Key, change func([]keys.Key) error) (modified []keys.Key, err error) {
	stored := slices.Clone(list)
	if err := change(list); err != nil {
		return nil, err
	}
	for i, previous := range stored {
		key := &list[i]
		key.ID, key.CreatedAt = previous.ID, previous.CreatedAt
		key.LastUsedAt, key.UseCount = previous.LastUsedAt, previous.UseCount
		if *key != previous {
			modified = append(modified, *key)
		}
	}
	return modified, nil
}

// PublicKeySize is the length of PublicKeyColumn in bytes.
const PublicKeySize = len(keys.Digest{}) + len(keys.PublicKey{})

// PublicKeyColumn returns the column value of a public key: the digest of its raw key,
// then the public key, or nil for a zero one. A process of an earlier version changes a
// digest only, and the public key that it leaves behind then belongs to no raw key.
func PublicKeyColumn(digest keys.Digest, public keys.PublicKey) []byte {
	if public == (keys.PublicKey{}) {
		return nil
	}
	return slices.Concat(digest[:], public[:])
}

// PublicKey returns the public key in the value of a column, or zero if it belongs to
// another digest.
func PublicKey(column []byte, digest keys.Digest) (public keys.PublicKey) {
	if value, ok := bytes.CutPrefix(column, digest[:]); ok {
		copy(public[:], value)
	}
	return public
}
