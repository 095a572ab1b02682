package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/keys"
)

type apiKeyRecord struct {
	ID         int64   `json:"id"`
	Name       string  `json:"name"`
	KeyPrefix  string  `json:"keyPrefix"`
	MaskedKey  string  `json:"maskedKey"`
	IsActive   bool    `json:"isActive"`
	ExpiresAt  *string `json:"expiresAt"`
	LastUsedAt *string `json:"lastUsedAt"`
	CreatedAt  string  `json:"createdAt"`
	UpdatedAt  string  `json:"updatedAt"`

	Owner                *string   `json:"owner"`
	Scopes               *[]string `json:"scopes"`
	PreviousKeyExpiresAt *string   `json:"previousKeyExpiresAt"`
	UseCount             int64     `json:"useCount"`
}

func newAPIKeyRecord(key keys.Key) apiKeyRecord {
	record := apiKeyRecord{
		ID:         key.ID,
		Name:       key.Name,
		KeyPrefix:  key.Prefix,
		MaskedKey:  key.Mask,
		IsActive:   key.Active,
		ExpiresAt:  formatOptionalTime(key.ExpiresAt),
		LastUsedAt: formatOptionalTime(key.LastUsedAt),
		CreatedAt:  formatTime(key.CreatedAt),
		UpdatedAt:  formatTime(key.UpdatedAt),
		UseCount:   key.UseCount,

		PreviousKeyExpiresAt: formatOptionalTime(key.PreviousExpiresAt),
	}
	if key.Owner != "" {
		record.Owner = &key.Owner
	}
	if scopes := key.Scopes.List(); scopes != nil {
		record.Scopes = &scopes
	}
	return record
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
		fields.Scopes = new([]string)
		if scopes := in.Scopes.value; scopes != nil {
			fields.Scopes = scopes
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

// listKeys responds with a page of keys, or with all. A long list is streamed in
// pages, so that it takes no more memory than a short one.
func (a *API) listKeys(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL)
	page, err := q.page()
	if err != nil {
		return err
	}
	filter := keys.Filter{After: page.after, Limit: maxPageSize}
	if page.limit > 0 {
		filter.Limit = page.limit
	}
	owner, ok, err := q.get("owner")
	if err != nil {
		return err
	}
	if ok {
		filter.Owner = &owner
	}
	list, more, err := a.keyPage(r, filter)
	if err != nil {
		return err
	}
	if !more || page.limit > 0 {
		if more {
			q.setLink(w.Header(), page, list[len(list)-1].ID)
		}
		body, err := appendKeys(list, '[')
		if err != nil {
			return err
		}
		a.sendJSON(w, r, http.StatusOK, append(body, ']'))
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out := a.newStream(w, r)
	for separator := byte('['); ; separator = ',' {
		body, err := appendKeys(list, separator)
		if !more {
			body = append(body, ']')
		}
		if err == nil {
			_, err = out.Write(body)
		}
		if err == nil && !more {
			break
		}
		if err == nil {
			filter.After = list[len(list)-1].ID
			list, more, err = a.keyPage(r, filter)
		}
		if err != nil {
			a.abort(w, r, err)
		}
	}
	out.Finish()
	return nil
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

// appendKeys returns keys as JSON, each after a separator, which is the given one
// and then a comma. A page after the first may be empty, because keys may have been
// deleted.
func appendKeys(list []keys.Key, separator byte) (body []byte, err error) {
	if separator == '[' && len(list) == 0 {
		return []byte{'['}, nil
	}
	for _, key := range list {
		record, err := json.Marshal(newAPIKeyRecord(key), jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return nil, err
		}
		body = append(append(body, separator), record...)
		separator = ','
	}
	return body, nil
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
		Key:     newAPIKeyRecord(issued.Key),
	}, nil
}

func (a *API) getKey(ctx context.Context, id int64, _ noBody) (apiKeyRecord, error) {
	key, err := a.keys.Get(ctx, id)
	return newAPIKeyRecord(key), err
}

func (a *API) updateKey(ctx context.Context, id int64, in apiKeyRequest) (apiKeyRecord, error) {
	fields, err := in.fields()
	if err != nil {
		return apiKeyRecord{}, err
	}
	key, err := a.keys.Update(ctx, id, fields)
	return newAPIKeyRecord(key), err
}

type rotateKeyRequest struct {
	OverlapSeconds optional[int64] `json:"overlapSeconds"`
}

func (a *API) rotateKey(ctx context.Context, id int64, in rotateKeyRequest) (issuedKeyResponse, error) {
	seconds := in.OverlapSeconds.value
	// Clamped, because a duration overflows; Rotate rejects it.
	issued, err := a.keys.Rotate(ctx, id, time.Duration(max(-1, min(seconds, 1<<30)))*time.Second)
	if err != nil {
		return issuedKeyResponse{}, err
	}
	previous := "The previous key no longer works."
	if seconds > 0 {
		previous = "The previous key works until " + formatTime(issued.Key.PreviousExpiresAt) + "."
	}
	return issuedKeyResponse{
		Message: "API key rotated. " + previous + " Store the new one now: it is not shown again.",
		APIKey:  string(issued.Raw),
		Key:     newAPIKeyRecord(issued.Key),
	}, nil
}

func (a *API) deleteKey(ctx context.Context, id int64, _ noBody) (messageResponse, error) {
	return messageResponse{"API key deleted."}, a.keys.Delete(ctx, id)
}
