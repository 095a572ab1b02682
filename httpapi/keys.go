package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/httpapi/internal/bodies"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// appendKey appends a key as JSON. Reflection would take more time for a page than
// the store does.
func appendKey(dst []byte, key *keys.Key) []byte {
	dst = strconv.AppendInt(append(dst, `{"id":`...), key.ID, 10)
	dst = bodies.AppendString(append(dst, `,"name":`...), key.Name)
	dst = bodies.AppendString(append(dst, `,"keyPrefix":`...), key.Prefix)
	dst = bodies.AppendString(append(dst, `,"maskedKey":`...), key.Mask)
	dst = strconv.AppendBool(append(dst, `,"isActive":`...), key.Active)
	dst = appendOptionalTime(append(dst, `,"expiresAt":`...), key.ExpiresAt)
	dst = appendOptionalTime(append(dst, `,"lastUsedAt":`...), key.LastUsedAt)
	dst = appendOptionalTime(append(dst, `,"createdAt":`...), key.CreatedAt)
	dst = appendOptionalTime(append(dst, `,"updatedAt":`...), key.UpdatedAt)
	dst = append(dst, `,"owner":`...)
	if key.Owner == "" {
		dst = append(dst, "null"...)
	} else {
		dst = bodies.AppendString(dst, key.Owner)
	}
	dst = append(dst, `,"scopes":`...)
	if list := key.Scopes.List(); list == nil {
		dst = append(dst, "null"...)
	} else {
		dst = bodies.AppendStrings(dst, list)
	}
	dst = appendOptionalTime(append(dst, `,"previousKeyExpiresAt":`...), key.PreviousExpiresAt)
	dst = strconv.AppendInt(append(dst, `,"useCount":`...), key.UseCount, 10)
	return append(dst, '}')
}

type apiKeyRequest struct {
	Name optional[string] `json:"name"`
	keyChanges
}

func (in *apiKeyRequest) fields() (keys.Fields, error) {
	fields, err := in.keyChanges.fields()
	fields.Name = in.Name.pointer()
	return fields, err
}

// keyChanges are the fields that several keys may get at once.
type keyChanges struct {
	IsActive  optional[bool]    `json:"isActive"`
	ExpiresAt optional[*string] `json:"expiresAt"`
	Owner     optional[*string] `json:"owner"`
	Scopes    optional[*texts]  `json:"scopes"`
}

func (in *keyChanges) fields() (fields keys.Fields, err error) {
	fields.Active = in.IsActive.pointer()
	fields.ExpiresAt, err = parseGiven(in.ExpiresAt, func(text string) (time.Time, error) { return parseTime("expiresAt", text) })
	if err == nil {
		fields.Owner, err = parseGiven(in.Owner, func(owner string) (string, error) {
			if owner == "" {
				return "", invalidRequest("owner must not be empty")
			}
			return owner, nil
		})
	}
	if err == nil {
		fields.Scopes, err = parseGiven(in.Scopes, func(list texts) (keys.Scopes, error) { return keys.NewScopes(list...) })
	}
	return fields, err
}

type issuedKeyResponse struct {
	Message string         `json:"message"`
	APIKey  string         `json:"apiKey"`
	Key     jsontext.Value `json:"key"`
}

type keyEndpoints struct{ service *keys.Service }

func keyReply(key keys.Key, err error) (reply, error) {
	return reply{body: appendKey(nil, &key), version: keyVersion(&key)}, err
}

// keyVersion returns the version of a key for its ETag: a hash of the raw key and of what
// an administrator can change. Uses do not change it.
func keyVersion(key *keys.Key) symbols.Version {
	hash := sha256.New()
	fmt.Fprintf(hash, "%d %q %t %d %q %q ", key.ID, key.Name, key.Active, key.ExpiresAt.UnixMilli(), key.Owner, key.Scopes.String())
	hash.Write(key.Digest[:])
	return symbols.Version(1 + binary.BigEndian.Uint64(hash.Sum(nil))>>2)
}

// unchanged returns the condition that If-Match holds for a key.
func (c *call) unchanged() func(*keys.Key) error {
	match := c.ifMatch()
	return func(key *keys.Key) error {
		if !match.Matches(keyVersion(key)) {
			return errChanged
		}
		return nil
	}
}

func issuedReply(message string, issued keys.Issued, err error) (reply, error) {
	body := marshal(issuedKeyResponse{
		Message: message,
		APIKey:  string(issued.Raw),
		Key:     appendKey(nil, &issued.Key),
	})
	return reply{body: body, created: Resource{Kind: "key", ID: issued.Key.ID}}, err
}

func (e keyEndpoints) listKeys(c *call) error {
	owner, err := c.query().pointer("owner")
	if err != nil {
		return err
	}
	return sendPages(c, pages[keys.Key]{
		read: func(ctx context.Context, selected page) ([]keys.Key, bool, error) {
			list, err := e.service.List(ctx, keys.Filter{Owner: owner}, keys.Range(selected))
			return list.Keys, list.More, err
		},
		append: appendKey,
		id:     func(key *keys.Key) int64 { return key.ID },
		size:   func(*keys.Key) int64 { return 4 << 10 },
		atOnce: maxPageSize,
	})
}

func (e keyEndpoints) createKey(ctx context.Context, _ *call, in apiKeyRequest) (reply, error) {
	fields, err := in.fields()
	if err != nil {
		return reply{}, err
	}
	issued, err := e.service.Create(ctx, fields)
	return issuedReply("API key created. Store it now: it is not shown again.", issued, err)
}

func (e keyEndpoints) getKey(ctx context.Context, c *call) (reply, error) {
	return keyReply(e.service.Get(ctx, c.id))
}

func (e keyEndpoints) updateKey(ctx context.Context, c *call, in apiKeyRequest) (reply, error) {
	fields, err := in.fields()
	if err != nil {
		return reply{}, err
	}
	return keyReply(e.service.Update(ctx, c.id, fields, c.unchanged()))
}

type updateKeysRequest struct {
	IDs ids `json:"ids"`
	keyChanges
}

func (e keyEndpoints) updateKeys(ctx context.Context, c *call, in updateKeysRequest) (reply, error) {
	c.touch("key", in.IDs...)
	fields, err := in.fields()
	if err != nil {
		return reply{}, err
	}
	updated, err := e.service.UpdateMany(ctx, in.IDs, fields)
	return countReply("updated", updated, err)
}

func (e keyEndpoints) deleteKeys(ctx context.Context, c *call, in idsRequest) (reply, error) {
	c.touch("key", in.IDs...)
	return countReply("deleted", len(in.IDs), e.service.DeleteMany(ctx, in.IDs))
}

type rotateKeyRequest struct {
	OverlapSeconds optional[int64] `json:"overlapSeconds"`
}

func (e keyEndpoints) rotateKey(ctx context.Context, c *call, in rotateKeyRequest) (reply, error) {
	issued, err := e.service.Rotate(ctx, c.id, wholeSeconds(in.OverlapSeconds.value), c.unchanged())
	previous := "The previous key no longer works."
	if !issued.Key.PreviousExpiresAt.IsZero() {
		previous = "The previous key ends at " + formatTime(issued.Key.PreviousExpiresAt) + "."
	}
	return issuedReply("API key rotated. "+previous+" Store the new one now: it is not shown again.", issued, err)
}

// wholeSeconds returns a duration. What would overflow stays too long, or negative.
func wholeSeconds(seconds int64) time.Duration {
	return time.Duration(max(-1, min(seconds, 1<<30))) * time.Second
}

func (e keyEndpoints) deleteKey(ctx context.Context, c *call) (reply, error) {
	return messageReply("API key deleted.", e.service.Delete(ctx, c.id, c.unchanged()))
}

type importKeysRequest struct {
	Keys limited[importedKey] `json:"keys"`
}

type importedKey struct {
	SHA256    string           `json:"sha256"`
	KeyPrefix optional[string] `json:"keyPrefix"`
	apiKeyRequest
}

func (in *importedKey) imported() (key keys.ImportedKey, err error) {
	digest, err := hex.DecodeString(in.SHA256)
	if err != nil || len(digest) != len(key.Digest) {
		return key, invalidRequest("sha256 must be 64 hexadecimal digits")
	}
	key.Digest = keys.Digest(digest)
	key.Prefix = in.KeyPrefix.value
	key.Fields, err = in.fields()
	return key, err
}

type importedKeysResponse struct {
	Imported int     `json:"imported"`
	IDs      []int64 `json:"ids"`
}

func (e keyEndpoints) importKeys(ctx context.Context, c *call, in importKeysRequest) (reply, error) {
	list := make([]keys.ImportedKey, len(in.Keys))
	for i := range in.Keys {
		var err error
		if list[i], err = in.Keys[i].imported(); err != nil {
			return reply{}, invalidRequest(fmt.Sprintf("keys[%d].%v", i, err))
		}
	}
	ids, err := e.service.Import(ctx, list)
	c.touch("key", ids...)
	return reply{body: marshal(importedKeysResponse{len(ids), ids})}, err
}

type revokeRawKeysRequest struct {
	APIKeys texts `json:"apiKeys"`
}

// revokeRawKeys revokes the client keys in the body. Wrong ones count as in a header.
func (e keyEndpoints) revokeRawKeys(_ context.Context, c *call, in revokeRawKeysRequest) (reply, error) {
	ctx, cancel := c.slowContext() // each read of a key has a timeout, too
	defer cancel()
	revoked, err := e.service.RevokeRaw(ctx, in.APIKeys, func() error { return c.api.auth.CountWrong(c.clientIP()) })
	return countReply("revoked", revoked, err)
}
