package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
)

// record is an answer that has an entity tag.
type record interface {
	version() symbols.Version
	appendJSON(dst []byte) []byte
}

// sendRecord writes a record as an answer.
func (a *API) sendRecord(w http.ResponseWriter, r *http.Request, status int, out record) error {
	w.Header().Set("ETag", entityTag(out.version()))
	return a.sendJSON(w, r, status, out.appendJSON(nil))
}

// sendJSON writes a body of any length, given in parts. It takes as long as the
// client moves.
func (a *API) sendJSON(w http.ResponseWriter, r *http.Request, status int, body ...[]byte) error {
	length := 0
	for _, part := range body {
		length += len(part)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(status)
	if length <= stream.ChunkSize {
		for _, part := range body {
			w.Write(part) // a client that has left needs no answer
		}
		return nil
	}
	out := stream.New(w, r, a.options.IdleTimeout)
	for _, part := range body {
		if _, err := out.Write(part); err != nil {
			return nil
		}
	}
	out.Finish()
	return nil
}

// read makes an endpoint that answers with a record, or with 304 and nothing
// if the client has the current version, which is all that is read then.
func (a *API) read(kind versionKind, read func(ctx context.Context, id int64) (record, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathID(r)
		if err != nil {
			return err
		}
		ctx, cancel := a.storeContext(r)
		defer cancel()
		if r.Header["If-None-Match"] != nil {
			version, err := a.versions.get(ctx, versionKey{kind, id})
			if err != nil {
				return err
			}
			if unchanged(r.Header, version) {
				return notModified(w, version)
			}
		}
		out, err := read(ctx, id)
		if err != nil {
			return err
		}
		w.Header().Set("Cache-Control", cacheRevalidated)
		return a.sendRecord(w, r, http.StatusOK, out)
	}
}

// cacheRevalidated lets the client keep an answer but not use it unasked.
const cacheRevalidated = "private, no-cache"

// notModified answers a client that holds the version.
func notModified(w http.ResponseWriter, version symbols.Version) error {
	w.Header().Set("Cache-Control", cacheRevalidated)
	w.Header().Set("ETag", entityTag(version))
	w.WriteHeader(http.StatusNotModified)
	return nil
}
