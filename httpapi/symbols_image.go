package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/httpapi/internal/picture"
	"example.com/canvasback/symbols"
)

var errNoImage = errors.New("the data of this symbol is not an image")

// imageHeader describes the image of a symbol.
type imageHeader struct {
	contentType string // empty if there is no image
	disposition string
}

// getImage responds with the image in the data of a symbol. The cache has the
// images of the most recently used symbols, or that one has no image: a 304 costs
// what it costs for a list.
func (a *API) getImage(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	ctx, cancel := a.storeContext(r)
	defer cancel()
	key := bodyKey{versionKey: versionKey{symbolVersion, id}, image: true}
	version, err := a.versions.get(ctx, key.versionKey)
	if err != nil {
		return err
	}
	body, err := a.bodies.get(key, version, func() (encodedBody, error) { return a.decodeImage(ctx, id) })
	if err != nil {
		return err
	}
	if body.image.contentType == "" {
		return errNoImage
	}
	if etag, ok := notModified(r.Header, body.version, imageView); ok {
		return sendNotModified(w, etag)
	}
	if body.parts == nil { // too long for the cache
		if body, err = a.decodeImage(ctx, id); err != nil {
			return err
		}
		if body.image.contentType == "" { // changed since
			return errNoImage
		}
	}
	header := w.Header()
	setTag(w, tag{version: body.version, view: imageView}.String())
	header.Set("Content-Disposition", body.image.disposition)
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	return a.sendBody(w, r, body.image.contentType, body.parts...)
}

// decodeImage reads a symbol and decodes its image.
func (a *API) decodeImage(ctx context.Context, id int64) (encodedBody, error) {
	symbol, err := a.symbols.GetSymbol(ctx, id)
	if err != nil {
		return encodedBody{}, err
	}
	body := encodedBody{version: symbol.Version}
	if found, ok := picture.Find(symbol.Data); ok {
		body.parts = [][]byte{found.Content}
		body.image = imageHeader{found.Type, disposition("inline", imageFileName(symbol, found.Extension))}
	}
	return body, nil
}

func imageFileName(symbol symbols.Symbol, extension string) string {
	name := filename.Clean(symbol.Name)
	if name == "" {
		name = "symbol"
	}
	if strings.HasSuffix(strings.ToLower(name), extension) {
		return name
	}
	return filename.Clean(name + extension)
}
