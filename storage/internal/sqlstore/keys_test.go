package sqlstore

import (
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

func TestPublicKeyColumn_BelongsToOneDigest(t *testing.T) {
	digest, other := keys.Digest{1, 2, 3}, keys.Digest{1, 2, 4}
	public := keys.PublicKey{5, 6}
	for name, test := range map[string]struct {
		column []byte
		digest keys.Digest
		want   keys.PublicKey
	}{
		"of the digest":    {PublicKeyColumn(digest, public), digest, public},
		"of another":       {PublicKeyColumn(other, public), digest, keys.PublicKey{}},
		"without a digest": {public[:], digest, keys.PublicKey{}},
		"none":             {PublicKeyColumn(digest, keys.PublicKey{}), digest, keys.PublicKey{}},
	} {
		t.Run(name, func(t *testing.T) { is.New(t).Equal(publicKey(test.column, test.digest), test.want) })
	}
	is := is.New(t)
	is.Equal(PublicKeyColumn(digest, public), append(digest[:], public[:]...))
	is.Equal(PublicKeyColumn(digest, keys.PublicKey{}), []byte(nil)) // NULL
}
