package httpapi

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"example.com/canvasback/keys"
)

// apiKeyRecord is the JSON form of a key.
type apiKeyRecord keys.Key

// MarshalJSON implements [json.Marshaler].
func (k apiKeyRecord) MarshalJSON() ([]byte, error) { return appendKey(nil, keys.Key(k)), nil }

// appendKey appends a key as JSON. Reflection would take more time for a page than
// the store does.
func appendKey(dst []byte, key keys.Key) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, key.ID, 10)
	dst = append(dst, `,"name":`...)
	dst = appendString(dst, key.Name)
	dst = append(dst, `,"keyPrefix":`...)
	dst = appendString(dst, key.Prefix)
	dst = append(dst, `,"maskedKey":`...)
	dst = appendString(dst, key.Mask)
	dst = append(dst, `,"isActive":`...)
	dst = strconv.AppendBool(dst, key.Active)
	dst = append(dst, `,"expiresAt":`...)
	dst = appendOptionalTime(dst, key.ExpiresAt)
	dst = append(dst, `,"lastUsedAt":`...)
	dst = appendOptionalTime(dst, key.LastUsedAt)
	dst = append(dst, `,"createdAt":`...)
	dst = appendOptionalTime(dst, key.CreatedAt)
	dst = append(dst, `,"updatedAt":`...)
	dst = appendOptionalTime(dst, key.UpdatedAt)
	dst = append(dst, `,"owner":`...)
	if key.Owner == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, key.Owner)
	}
	dst = append(dst, `,"scopes":`...)
	dst = appendScopes(dst, key.Scopes.List())
	dst = append(dst, `,"previousKeyExpiresAt":`...)
	dst = appendOptionalTime(dst, key.PreviousExpiresAt)
	dst = append(dst, `,"useCount":`...)
	dst = strconv.AppendInt(dst, key.UseCount, 10)
	return append(dst, '}')
}

func appendScopes(dst []byte, list []string) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, scope := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, scope)
	}
	return append(dst, ']')
}

type apiKeyRequest struct {
	Name      optional[string]    `json:"name"`
	IsActive  optional[bool]      `json:"isActive"`
	ExpiresAt optional[*string]   `json:"expiresAt"`
	Owner     optional[*string]   `json:"owner"`
	Scopes    optional[*[]string] `json:"scopes"`
}

func (in *apiKeyRequest) fields() (keys.Fields, error) {
	fields := keys.Fields{Name: in.Name.pointer(), Active: in.IsActive.pointer()}
	if in.ExpiresAt.set {
		fields.ExpiresAt = new(time.Time)
		if text := in.ExpiresAt.value; text != nil {
			at, err := parseTime("expiresAt", *text)
			if err != nil {
				return keys.Fields{}, err
			}
			fields.ExpiresAt = &at
		}
	}
	if in.Owner.set {
		fields.Owner = new(string)
		if owner := in.Owner.value; owner != nil {
			if *owner == "" {
				return keys.Fields{}, invalidRequest("owner must not be empty")
			}
			fields.Owner = owner
		}
	}
	if in.Scopes.set {
		fields.Scopes = new(keys.Scopes)
		if list := in.Scopes.value; list != nil {
			scopes, err := keys.NewScopes(*list...)
			if err != nil {
				return keys.Fields{}, err
			}
			fields.Scopes = &scopes
		}
	}
	return fields, nil
}

type issuedKeyResponse struct {
	Message string       `json:"message"`
	APIKey  string       `json:"apiKey"`
	Key     apiKeyRecord `json:"key"`
}

func (r issuedKeyResponse) resource() Resource { return Resource{Kind: "key", ID: r.Key.ID} }

type messageResponse struct {
	Message string `json:"message"`
}

// listKeys responds with a page of keys, or with all.
func (a *API) listKeys(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL)
	page, err := q.page()
	if err != nil {
		return err
	}
	filter := keys.Filter{After: page.after, Limit: cmp.Or(page.limit, maxPageSize)}
	owner, ok, err := q.get("owner")
	if err != nil {
		return err
	}
	if ok {
		filter.Owner = &owner
	}
	list, more, err := a.keyPage(r, filter)
	switch {
	case err != nil:
		return err
	case more && page.limit == 0:
		return a.streamKeys(w, r, filter, list)
	case more:
		q.setLink(w.Header(), page, list[len(list)-1].ID)
	}
	return a.sendCompressible(w, r, append(appendKeys(nil, list, '['), ']'))
}

// streamKeys responds with the first page of keys and then with the others as they
// are read, so that a long list takes no more memory than a page.
func (a *API) streamKeys(w http.ResponseWriter, r *http.Request, filter keys.Filter, list []keys.Key) error {
	return a.streamJSON(w, r, compressible(w, r), 0, func(out io.Writer) error {
		body := appendKeys(nil, list, '[')
		for more := true; more; {
			if _, err := out.Write(body); err != nil {
				return err
			}
			filter.After = list[len(list)-1].ID
			var err error
			if list, more, err = a.keyPage(r, filter); err != nil {
				return err
			}
			body = appendKeys(body[:0], list, ',')
		}
		_, err := out.Write(append(body, ']'))
		return err
	})
}

// keyPage returns the keys that the filter selects, and whether more follow.
func (a *API) keyPage(r *http.Request, filter keys.Filter) (list []keys.Key, more bool, err error) {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	limit := filter.Limit
	filter.Limit++
	if list, err = a.keys.List(ctx, filter); len(list) > limit {
		return list[:limit], true, err
	}
	return list, false, err
}

// appendKeys appends keys as JSON, each after a separator, which is the given one
// and then a comma. A page after the first may be empty, because keys may have been
// deleted.
func appendKeys(dst []byte, list []keys.Key, separator byte) []byte {
	if separator == '[' && len(list) == 0 {
		return append(dst, '[')
	}
	const estimate = 384 // bytes of a key, rarely too low
	dst = slices.Grow(dst, estimate*len(list))
	for _, key := range list {
		dst = appendKey(append(dst, separator), key)
		separator = ','
	}
	return dst
}

func (a *API) createKey(ctx context.Context, _ int64, in apiKeyRequest) (issuedKeyResponse, error) {
	fields, err := in.fields()
	if err != nil {
		return issuedKeyResponse{}, err
	}
	issued, err := a.keys.Create(ctx, fields)
	if err != nil {
		return issuedKeyResponse{}, err
	}
	return issuedKeyResponse{
		Message: "API key created. Store it now: it is not shown again.",
		APIKey:  string(issued.Raw),
		Key:     apiKeyRecord(issued.Key),
	}, nil
}

func (a *API) getKey(ctx context.Context, id int64, _ noBody) (apiKeyRecord, error) {
	key, err := a.keys.Get(ctx, id)
	return apiKeyRecord(key), err
}

func (a *API) updateKey(ctx context.Context, id int64, in apiKeyRequest) (apiKeyRecord, error) {
	fields, err := in.fields()
	if err != nil {
		return apiKeyRecord{}, err
	}
	key, err := a.keys.Update(ctx, id, fields)
	return apiKeyRecord(key), err
}

type rotateKeyRequest struct {
	OverlapSeconds optional[int64] `json:"overlapSeconds"`
}

func (a *API) rotateKey(ctx context.Context, id int64, in rotateKeyRequest) (issuedKeyResponse, error) {
	seconds := max(-1, min(in.OverlapSeconds.value, 1<<30)) // others overflow; Rotate rejects these
	issued, err := a.keys.Rotate(ctx, id, time.Duration(seconds)*time.Second)
	if err != nil {
		return issuedKeyResponse{}, err
	}
	previous := "The previous key no longer works."
	if !issued.Key.PreviousExpiresAt.IsZero() {
		previous = "The previous key works until " + formatTime(issued.Key.PreviousExpiresAt) + "."
	}
	return issuedKeyResponse{
		Message: "API key rotated. " + previous + " Store the new one now: it is not shown again.",
		APIKey:  string(issued.Raw),
		Key:     apiKeyRecord(issued.Key),
	}, nil
}

func (a *API) deleteKey(ctx context.Context, id int64, _ noBody) (messageResponse, error) {
	return messageResponse{"API key deleted."}, a.keys.Delete(ctx, id)
}
