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

func (a *API) createLink(w http.ResponseWriter, r *http.Request) error {
	var in createLinkRequest
	if err := decode(r, &in); err != nil {
		return err
	}
	switch {
	case in.SourceFileURL.set && in.Items.set:
		return invalidRequest("sourceFileUrl and items must not be given together")
	case !in.SourceFileURL.set && !in.Items.set:
		return invalidRequest("sourceFileUrl or items must be given")
	}
	var owner exports.Digest
	if key, ok := KeyFromContext(r.Context()); ok {
		owner = exports.Digest(key.Digest)
	}
	ctx, cancel := a.storeContext(r)
	defer cancel()
	var link *exports.Link
	if in.SourceFileURL.set {
		export, err := a.exports.Find(ctx, in.SourceFileURL.value)
		touchExport(w, in.SourceFileURL.value, export.ID)
		if err != nil {
			return err
		}
		if link, err = a.exports.CreateFileLink(r.Context(), export, owner); err != nil {
			return err
		}
	} else {
		batch := batchExportRequest{in.Items.value}
		items, err := a.exports.FindBatch(ctx, batch.sources())
		if err != nil {
			return err
		}
		touchItems(w, items)
		if link, err = a.exports.CreateLink(r.Context(), items, owner); err != nil {
			return err
		}
	}
	a.logSkipped(w, r, http.StatusCreated, link.Skipped)
	return encode(w, http.StatusCreated, newLinkResponse(link))
}
