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

// imageKind identifies images in the cache.
const imageKind versionKind = -1

// encodedImage is the image of a symbol at a version.
type encodedImage struct {
	contentType string // empty if there is none
	fileName    string
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
	version, err := a.versions.get(ctx, versionKey{symbolVersion, id})
	if err != nil {
		return err
	}
	image, err := a.lists.get(listKey{kind: imageKind, id: id}, version, func() (encodedList, error) {
		return a.decodeImage(ctx, id)
	})
	if err != nil {
		return err
	}
	if image.image.contentType == "" {
		return errNoImage
	}
	if etag, ok := notModified(r.Header, image.version, imageView); ok {
		return sendNotModified(w, etag)
	}
	if image.body == nil { // too large for the cache
		if image, err = a.decodeImage(ctx, id); err != nil {
			return err
		}
	}
	if image.image.contentType == "" { // since it has changed
		return errNoImage
	}
	header := w.Header()
	header.Set("Cache-Control", cacheControlRevalidate)
	header.Set("ETag", tag{version: image.version, view: imageView}.String())
	header.Set("Content-Disposition", dispositionOf("inline", image.image.fileName))
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	a.sendBody(w, r, http.StatusOK, image.image.contentType, image.body...)
	return nil
}

// decodeImage reads a symbol and decodes its image.
func (a *API) decodeImage(ctx context.Context, id int64) (encodedList, error) {
	symbol, err := a.symbols.GetSymbol(ctx, id)
	if err != nil {
		return encodedList{}, err
	}
	list := encodedList{version: symbol.Version}
	if found, ok := picture.Find(symbol.Data); ok {
		list.body = [][]byte{found.Content}
		list.image = encodedImage{found.Type, imageFileName(symbol, found.Extension)}
	}
	return list, nil
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
