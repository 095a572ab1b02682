package httpapi

import (
	"context"
	"io"
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
	encoded := body.appendJSON(nil)
	if r.Body.(*requestBody).memory.Size() < int64(len(encoded)) { // it has more than the request
		release, err := a.holdBody(w, r, [][]byte{encoded})
		if err != nil {
			return err
		}
		defer release()
	}
	w.Header().Set("ETag", tag{version: body.version()}.String())
	a.writeBody(w, r, status, "application/json", encoded)
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
		return a.get(w, r, bodyKey{versionKey: versionKey{kind, id}}, func(ctx context.Context) (taggedBody, error) {
			return load(ctx, id)
		})
	}
}

// get responds with what load returns, which the key identifies. Long bodies are
// compressed as they are sent.
func (a *API) get(w http.ResponseWriter, r *http.Request, key bodyKey, load func(context.Context) (taggedBody, error)) error {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	key.gzip = compressible(w, r)
	if a.bodies.has(key) || r.Header["If-None-Match"] != nil {
		version, err := a.versions.get(ctx, key.versionKey)
		if err != nil {
			return err
		}
		if etag, ok := notModified(r.Header, version, ""); ok {
			return sendNotModified(w, etag)
		}
		if cached, ok := a.bodies.lookup(key, version); ok && cached.parts != nil {
			return a.sendTaggedBody(w, r, cached, "")
		}
	}
	loaded, err := load(ctx)
	if err != nil {
		return err
	}
	plain := loaded.appendJSON(nil)
	body := encodedBody{version: loaded.version(), parts: [][]byte{plain}}
	loaded = nil // it may be long
	if !key.gzip || len(plain) < minCompressed {
		if len(plain) <= shortBody {
			a.bodies.put(key, body)
		}
		return a.sendTaggedBody(w, r, body, "")
	}
	if len(plain) <= maxRatio*shortBody {
		cached, err := a.bodies.get(key, body.version, func() (encodedBody, error) {
			return encodedBody{version: body.version, parts: [][]byte{compress(plain)}, gzip: true}, nil
		})
		if err != nil {
			return err
		}
		if cached.parts != nil {
			return a.sendTaggedBody(w, r, cached, "")
		}
	}
	setTag(w, tag{version: body.version, gzip: true}.String()) // too long for the cache
	return a.streamJSON(w, r, true, len(plain), func(out io.Writer) error { return writeParts(out, body.parts) })
}

// sendTaggedBody writes the response with a complete body.
func (a *API) sendTaggedBody(w http.ResponseWriter, r *http.Request, body encodedBody, view string) error {
	setTag(w, tag{body.version, view, body.gzip}.String())
	if body.gzip {
		w.Header().Set("Content-Encoding", "gzip")
	}
	return a.sendJSON(w, r, body.parts...)
}
