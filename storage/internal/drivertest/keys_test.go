package drivertest

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

// A process of an earlier version rotates a key without its public keys.
func TestFind_IgnoresPublicKeyOfEarlierRawKey(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		store := db.migrated().Keys()
		now := time.Now().UTC().Truncate(time.Millisecond)
		must(store.Insert(t.Context(), keys.Key{
			Digest: digestOf(1), PublicKey: keys.PublicKey{1}, CreatedAt: now, UpdatedAt: now,
			PreviousDigest: digestOf(2), PreviousPublicKey: keys.PublicKey{2}, PreviousExpiresAt: now,
		}))(t)
		for _, rotation := range []struct {
			statement        string
			find             int
			public, previous keys.PublicKey
		}{
			{`SELECT 1`, 1, keys.PublicKey{1}, keys.PublicKey{2}},
			{`UPDATE canvasback_keys SET digest = ` + db.digest(3), 3, keys.PublicKey{}, keys.PublicKey{2}},
			{`UPDATE canvasback_keys SET previous_digest = ` + db.digest(4), 4, keys.PublicKey{}, keys.PublicKey{}},
		} {
			db.execute(rotation.statement)
			key := must(store.Find(t.Context(), digestOf(rotation.find)))(t)
			is.Equal([]keys.PublicKey{key.PublicKey, key.PreviousPublicKey}, []keys.PublicKey{rotation.public, rotation.previous})
		}
	})
}
