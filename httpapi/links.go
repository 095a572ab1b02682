package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/linkserve"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/keys"
)

type createLinkRequest struct {
	SourceFileURL optional[string]                `json:"sourceFileUrl"`
	Items         optional[[]singleExportRequest] `json:"items"`
}

type linkResponse struct {
	Success   bool          `json:"success"`
	URL       string        `json:"url"`
	FileName  string        `json:"fileName"`
	Size      *int64        `json:"size"`
	Resumable bool          `json:"resumable"`
	ETag      *string       `json:"etag"`
	ExpiresAt string        `json:"expiresAt"`
	Skipped   []skippedItem `json:"skipped"`
}

func newLinkResponse(link *exports.Link) linkResponse {
	out := linkResponse{
		Success:   true,
		URL:       "links/" + link.Token + "/" + url.PathEscape(link.FileName), // relative to the URL of the request
		FileName:  link.FileName,
		Resumable: link.Resumable(),
		ExpiresAt: formatTime(link.ExpiresAt),
		Skipped:   skippedItems(link.Skipped),
	}
	if link.Size >= 0 {
		out.Size = &link.Size
	}
	if link.Resumable() {
		out.ETag = &link.ETag
	}
	return out
}

func (e exportEndpoints) createLink(c *call) error {
	var in createLinkRequest
	if err := c.decode(&in); err != nil {
		return err
	}
	switch {
	case in.SourceFileURL.set && in.Items.set:
		return invalidRequest("sourceFileUrl and items must not be given together")
	case !in.SourceFileURL.set && !in.Items.set:
		return invalidRequest("sourceFileUrl or items must be given")
	}
	var owner exports.Digest
	if c.verified {
		owner = exports.Digest(c.key.Digest)
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	var link *exports.Link
	if in.SourceFileURL.set {
		export, err := e.service.Find(ctx, in.SourceFileURL.value)
		c.touchExport(in.SourceFileURL.value, export.ID)
		if err != nil {
			return err
		}
		if link, err = e.service.CreateFileLink(c.r.Context(), export, owner); err != nil {
			return err
		}
	} else {
		batch := batchExportRequest{in.Items.value}
		items, err := e.service.FindBatch(ctx, batch.sources())
		if err != nil {
			return err
		}
		c.touchItems(items)
		if link, err = e.service.CreateLink(c.r.Context(), items, owner); err != nil {
			return err
		}
	}
	c.logSkipped(http.StatusCreated, link.Skipped)
	return c.encode(http.StatusCreated, newLinkResponse(link))
}

// serveLink responds with a link, or with ranges of it.
func (e exportEndpoints) serveLink(c *call) error {
	if linkserve.IsFetch(c.r.Header) {
		return errLoop
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	link, err := e.service.FindLink(ctx, c.r.PathValue("token"))
	if err != nil {
		return err
	}
	key, err := c.checkLinkKey(link.Owner)
	c.keyID = key.ID // also of a rejected key
	if err == nil && key.ID != 0 {
		err = c.permit(&key, nil)
	}
	if err != nil {
		return err
	}
	return download(func(c *call) error { return c.sendLink(link) })(c)
}

// checkLinkKey returns the key that a link belongs to, and [linkserve.ErrRevoked] if it
// is no longer accepted. With open client routes, a link belongs to no key.
func (c *call) checkLinkKey(owner exports.Digest) (keys.Key, error) {
	if c.api.options.DangerouslySkipClientKeys {
		return keys.Key{}, nil
	}
	if c.api.keys == nil || owner == (exports.Digest{}) {
		return keys.Key{}, linkserve.ErrRevoked
	}
	key, err := c.api.keys.VerifyDigest(c.detached(), keys.Digest(owner))
	switch {
	case errors.Is(err, keys.ErrUnavailable):
		return keys.Key{}, err
	case err != nil, !key.Allows(ScopeExportsRead):
		return key, linkserve.ErrRevoked
	}
	return key, nil
}

func (c *call) sendLink(link *exports.Link) error {
	start := time.Now()
	skipped, err := linkserve.Serve(&c.w, c.r, link, linkserve.Options{
		CheckKey: func() error {
			_, err := c.checkLinkKey(link.Owner)
			return err
		},
		StoreTimeout: c.api.options.Limits.StoreTimeout,
		Describe: func(header http.Header, l *exports.Link) {
			header.Set("Content-Type", "application/zip")
			if !l.Zip {
				header.Set("Content-Type", downloadContentType(l.Type))
			}
			header.Set("Content-Disposition", disposition("attachment", l.FileName))
		},
		OnContent: func(l *exports.Link) {
			c.touched = nil // by a previous state
			for _, source := range l.Sources {
				c.touchExport(source, 0)
			}
		},
		NewStream: func(w http.ResponseWriter) *stream.Writer {
			out := c.newStream(w)
			flushIfSlow(out, start)
			return out
		},
	})
	c.logSkipped(http.StatusOK, skipped)
	if err != nil && c.w.status != 0 {
		c.abort(err)
	}
	return err
}
