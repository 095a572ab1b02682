package httpapi

import (
	"context"
	"regexp"
	"strings"
	"time"

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
}

func newAPIKeyRecord(key keys.Key) apiKeyRecord {
	return apiKeyRecord{
		ID:         key.ID,
		Name:       key.Name,
		KeyPrefix:  key.Prefix,
		MaskedKey:  key.Mask,
		IsActive:   key.Active,
		ExpiresAt:  formatOptionalTime(key.ExpiresAt),
		LastUsedAt: formatOptionalTime(key.LastUsedAt),
		CreatedAt:  formatTime(key.CreatedAt),
		UpdatedAt:  formatTime(key.UpdatedAt),
	}
}

type apiKeyRequest struct {
	Name      optional[string]  `json:"name"`
	IsActive  optional[bool]    `json:"isActive"`
	ExpiresAt optional[*string] `json:"expiresAt"`
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
	return fields, nil
}

type issuedKeyResponse struct {
	Message string       `json:"message"`
	APIKey  string       `json:"apiKey"`
	Key     apiKeyRecord `json:"key"`
}

type messageResponse struct {
	Message string `json:"message"`
}

func (a *API) listKeys(ctx context.Context, _ int64, _ noBody) ([]apiKeyRecord, error) {
	list, err := a.keys.List(ctx)
	if err != nil {
		return nil, err
	}
	records := make([]apiKeyRecord, len(list))
	for i, key := range list {
		records[i] = newAPIKeyRecord(key)
	}
	return records, nil
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

func (a *API) rotateKey(ctx context.Context, id int64, _ noBody) (issuedKeyResponse, error) {
	issued, err := a.keys.Rotate(ctx, id)
	if err != nil {
		return issuedKeyResponse{}, err
	}
	return issuedKeyResponse{
		Message: "API key rotated. The former key no longer works. Store the new one now: it is not shown again.",
		APIKey:  string(issued.Raw),
		Key:     newAPIKeyRecord(issued.Key),
	}, nil
}

func (a *API) deleteKey(ctx context.Context, id int64, _ noBody) (messageResponse, error) {
	return messageResponse{"API key deleted."}, a.keys.Delete(ctx, id)
}

// formatTime writes a time as RFC 3339 in UTC with milliseconds.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// formatOptionalTime writes the zero time as null.
func formatOptionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(formatTime(t))
}

// rfc3339 is the grammar of RFC 3339, section 5.6. time.Parse alone would let in
// an hour of one digit, a comma for the point, and an offset of 24 hours.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// parseTime reads RFC 3339 with any offset, or a plain date as midnight UTC.
func parseTime(field, text string) (time.Time, error) {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil && rfc3339.MatchString(text) {
		at, err = time.Parse(time.RFC3339, strings.ToUpper(text))
	}
	if err != nil || at.IsZero() { // the zero time would stand for none
		return time.Time{}, invalidRequest(field + ` must be a time such as "2026-12-31T23:59:59Z" or a date such as "2026-12-31"`)
	}
	return at, nil
}
