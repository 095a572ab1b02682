package httpapi

import (
	"cmp"
	"net/http"

	"example.com/canvasback/keys"
)

type tokenRequest struct {
	ExpiresInSeconds optional[int64]  `json:"expiresInSeconds"`
	Scopes           optional[*texts] `json:"scopes"`
	Sources          optional[*texts] `json:"sources"`
}

func (in *tokenRequest) fields() (fields keys.TokenFields, err error) {
	if in.ExpiresInSeconds.set {
		fields.Lifetime = wholeSeconds(cmp.Or(in.ExpiresInSeconds.value, -1)) // zero is not the default
	}
	if in.Sources.value != nil {
		fields.Sources = *in.Sources.value
	}
	if in.Scopes.value != nil {
		fields.Scopes, err = keys.NewScopes(*in.Scopes.value...)
	}
	return fields, err
}

type tokenResponse struct {
	Token     string    `json:"token"`
	ExpiresAt string    `json:"expiresAt"`
	Scopes    *[]string `json:"scopes"`
	Sources   *[]string `json:"sources"`
}

// listOrNull returns a list that is encoded as null if it is nil.
func listOrNull(list []string) *[]string { return orNull(list, list != nil) }

// createToken responds with a page token of the raw key of the request.
func (e keyEndpoints) createToken(c *call) error {
	if c.key.Token != nil {
		return errTokenOfToken
	}
	var in tokenRequest
	if err := c.decode(&in); err != nil {
		return err
	}
	fields, err := in.fields()
	if err != nil {
		return err
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	issued, err := e.service.IssueToken(ctx, c.credentials().client[0], fields)
	if err != nil {
		return err
	}
	return c.encode(http.StatusCreated, tokenResponse{
		Token:     string(issued.Raw),
		ExpiresAt: formatTime(issued.Key.Token.ExpiresAt),
		Scopes:    listOrNull(issued.Key.Scopes.List()),
		Sources:   listOrNull(issued.Key.Token.Sources),
	})
}

type ownKeyResponse struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	Owner     *string   `json:"owner"`
	Scopes    *[]string `json:"scopes"`
	Sources   *[]string `json:"sources"`
	ExpiresAt *string   `json:"expiresAt"`
	IsToken   bool      `json:"isToken"`
}

// getOwnKey responds with what the key of the request permits.
func getOwnKey(c *call) error {
	key := &c.key
	end := key.ValidUntil()
	out := ownKeyResponse{
		ID:        key.ID,
		Name:      key.Name,
		Owner:     orNull(key.Owner, key.Owner != ""),
		Scopes:    listOrNull(key.Scopes.List()),
		ExpiresAt: orNull(formatTime(end), !end.IsZero()),
	}
	if key.Token != nil {
		out.IsToken, out.Sources = true, listOrNull(key.Token.Sources)
	}
	return c.encode(http.StatusOK, out)
}
