package httpapi

import (
	"context"
	"net/http"

	"example.com/canvasback/symbols"
)

// taggedBody is a JSON body with an ETag.
type taggedBody interface {
	version() symbols.Version
	appendJSON(dst []byte) []byte
}

// sendTagged writes the response to a change.
func (a *API) sendTagged(w http.ResponseWriter, r *http.Request, status int, body taggedBody) error {
	w.Header().Set("ETag", tag{version: body.version()}.String())
	a.sendJSON(w, r, status, body.appendJSON(nil))
	return nil
}

// getEndpoint returns an endpoint that responds with what load returns. A client
// that has the current version gets 304, which costs a read of the version only.
func (a *API) getEndpoint(kind versionKind, load func(ctx context.Context, id int64) (taggedBody, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathID(r)
		if err != nil {
			return err
		}
		return a.get(w, r, listKey{kind: kind, id: id}, "", func(ctx context.Context) (taggedBody, error) {
			return load(ctx, id)
		})
	}
}

// get responds with what load returns, a view of what the key identifies. Only
// compressed bodies are cached: to read the others takes one statement.
func (a *API) get(w http.ResponseWriter, r *http.Request, key listKey, view string, load func(context.Context) (taggedBody, error)) error {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	key.gzip = compressible(w, r)
	if r.Header["If-None-Match"] != nil {
		version, err := a.versions.get(ctx, versionKey{key.kind, key.id})
		if err != nil {
			return err
		}
		if etag, ok := notModified(r.Header, version, view); ok {
			return sendNotModified(w, etag)
		}
	}
	loaded, err := load(ctx)
	if err != nil {
		return err
	}
	list := encodedList{version: loaded.version(), body: [][]byte{loaded.appendJSON(nil)}}
	if key.gzip && len(list.body[0]) >= minCompressed {
		list, err = a.lists.get(key, list.version, func() (encodedList, error) {
			return encodedList{version: list.version, body: [][]byte{compress(list.body...)}, gzip: true}, nil
		})
	}
	if err == nil {
		a.sendList(w, r, list, view)
	}
	return err
}
