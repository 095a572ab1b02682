package httpapi

import (
	"net/http"
	"net/url"

	"example.com/canvasback/exports"
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
