package httpapi

import (
	"context"
	"encoding/hex"
	"fmt"

	"example.com/canvasback/keys"
)

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
