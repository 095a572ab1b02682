package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"example.com/canvasback/keys"
)

// hint is the error of a key check with a text that helps the client on.
type hint struct {
	error
	text string
}

func (h hint) Unwrap() error { return h.error }

// hintPatience is how long a request waits for the store on account of its
// hint. The answer is right without one.
const hintPatience = time.Second

// explain adds to the error of a key check what the client has to do. Of a key
// it tells only who has sent it, be it in the wrong place: to others the answer
// is the same as ever, and what they send counts as a guess.
func (a *api) explain(r *http.Request, wanted guard, err error) error {
	switch {
	case errors.Is(err, keys.ErrUnavailable), err == errAdminOff:
		return err
	case errors.Is(err, keys.ErrInactive):
		return hint{err, "this API key is inactive; an administrator can activate it"}
	case errors.Is(err, keys.ErrExpired):
		return hint{err, "this API key has expired; an administrator can give it a later expiresAt"}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), hintPatience) // see storeContext
	defer cancel()
	guessed, text := false, err.Error()
	var silence error // of the store, which is not asked again then
	for _, place := range []struct {
		header   string
		forAdmin bool // hosts may use the others for secrets of their own
	}{{headerAdminKey, true}, {headerAPIKey, true}, {"Authorization", false}, {"X-Access-Token", false}} {
		values := r.Header[place.header]
		if len(values) != 1 {
			continue
		}
		value := strings.TrimPrefix(values[0], "Bearer ")
		found := ""
		clientErr := silence
		switch {
		case wanted == clientKey && place.header == headerAPIKey: // it has been checked already
			clientErr = err
		case silence == nil:
			clientErr = a.recognize(ctx, value)
			if errors.Is(clientErr, keys.ErrUnavailable) {
				silence = clientErr
			}
		}
		switch {
		case place.forAdmin && a.isAdminKey(value):
			found = "an admin key"
		case clientErr == nil, errors.Is(clientErr, keys.ErrInactive), errors.Is(clientErr, keys.ErrExpired):
			found = "a client key"
		default:
			guessed = guessed || place.forAdmin || errors.Is(clientErr, keys.ErrUnknown)
			if strings.Contains(value, "****") {
				text = strings.ToLower(place.header) + " holds a masked key, which is for display only; the raw key is wanted"
			}
			continue
		}
		text = strings.ToLower(place.header) + " holds " + found + "; this route wants " + wanted.String()
		break
	}
	switch {
	case guessed && err == errClientKeyMissing:
		return hint{keys.ErrUnknown, text}
	case guessed && err == errAdminKeyMissing:
		return hint{errAdminKeyWrong, text}
	case text != err.Error():
		return hint{err, text}
	}
	return err
}

// recognize checks a value as a client key wherever it was sent.
func (a *api) recognize(ctx context.Context, raw string) error {
	if a.Keys == nil {
		return keys.ErrUnknown
	}
	_, err := a.Keys.Recognize(ctx, raw)
	return err
}
