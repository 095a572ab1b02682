package httpapi

import (
	"context"
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
	UseCount   int64   `json:"useCount"`
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
		UseCount:   key.UseCount,
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
	list, err := a.keys.List(ctx, keys.Filter{})
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
	issued, err := a.keys.Rotate(ctx, id, 0)
	if err != nil {
		return issuedKeyResponse{}, err
	}
	return issuedKeyResponse{
		Message: "API key rotated. The previous key no longer works. Store the new one now: it is not shown again.",
		APIKey:  string(issued.Raw),
		Key:     newAPIKeyRecord(issued.Key),
	}, nil
}

func (a *API) deleteKey(ctx context.Context, id int64, _ noBody) (messageResponse, error) {
	return messageResponse{"API key deleted."}, a.keys.Delete(ctx, id)
}
