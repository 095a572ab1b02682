package httpapi

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"example.com/canvasback/httpapi/internal/budget"
)

// endpoint responds to an authenticated request, or returns the error to respond
// with.
type endpoint func(w http.ResponseWriter, r *http.Request) error

// noBody is the input of an endpoint that reads nothing but the path.
type noBody struct{}

// jsonEndpoint returns an endpoint that calls f with the id in the path (zero if
// there is none) and the request body, and responds with the result.
func jsonEndpoint[In, Out any](a *API, status int, f func(ctx context.Context, id int64, in In) (Out, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathID(r)
		if err != nil {
			return err
		}
		var in In
		switch any(in).(type) {
		case noBody, ifMatch:
			drain(w, r)
		default:
			if err := decode(r, &in); err != nil {
				return err
			}
		}
		if conditional, ok := any(&in).(interface{ readHeader(http.Header) }); ok {
			conditional.readHeader(r.Header)
		}
		ctx, cancel := a.storeContext(r)
		defer cancel()
		out, err := f(ctx, id, in)
		if err != nil {
			return err
		}
		if created, ok := any(out).(interface{ resource() Resource }); ok && status == http.StatusCreated {
			touch(w, created.resource())
		}
		if body, ok := any(out).(taggedBody); ok {
			return a.sendTagged(w, r, status, body)
		}
		return encode(w, status, out)
	}
}

// storeContext returns the context of store calls. It ends after StoreTimeout and
// not when the client disconnects: a client may close its side of the connection
// after the request, and a driver may discard a database connection whose call is
// canceled.
func (a *API) storeContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), a.options.StoreTimeout)
}

// pathID returns the id in the path, or zero if the route has none.
func pathID(r *http.Request) (int64, error) {
	if !strings.Contains(r.Pattern, "{id}") {
		return 0, nil
	}
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	// ParseInt accepts signs and leading zeros, and PathValue is unescaped, which
	// would give one record several URLs.
	escaped := !strings.Contains(r.URL.EscapedPath()+"/", "/"+text+"/")
	if err != nil || id < 1 || strconv.FormatInt(id, 10) != text || escaped {
		return 0, invalidRequest("id must be a positive whole number")
	}
	return id, nil
}

// readBody reads the body of a request. It returns errType unless the media type
// is accepted or absent. An empty body has no type.
func readBody(r *http.Request, accepted func(mediaType string) bool, errType error) ([]byte, error) {
	if err := checkBodyType(r, accepted, errType); err != nil {
		if r.Body.(*requestBody).isEmpty() {
			return nil, nil
		}
		return nil, err
	}
	body, err := r.Body.(*requestBody).readAll()
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, errTooLarge
	}
	if errors.Is(err, budget.ErrExhausted) {
		return nil, err
	}
	if err != nil {
		return nil, invalidRequest("body could not be read")
	}
	return body, nil
}

func checkBodyType(r *http.Request, accepted func(mediaType string) bool, errType error) error {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return errContentEncoding
	}
	if types := r.Header.Values("Content-Type"); len(types) > 0 {
		mediaType, _, err := mime.ParseMediaType(types[0])
		if len(types) > 1 || err != nil || !accepted(mediaType) {
			return errType
		}
	}
	return nil
}
