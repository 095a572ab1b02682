package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/exports"
)

// adminExportRecord is an export as administrators see it.
type adminExportRecord struct {
	exportRecord
	RegisteredBy *string `json:"registeredBy"`
}

func newAdminExportRecord(export exports.Export) adminExportRecord {
	record := adminExportRecord{exportRecord: newExportRecord(export)}
	if export.RegisteredBy != "" {
		record.RegisteredBy = &export.RegisteredBy
	}
	return record
}

// noExport replaces an error about the source of an export by one about its id.
func noExport(err error) error {
	if errors.Is(err, exports.ErrNotFound) {
		return errNoExport
	}
	return err
}

// listExports responds with a page of exports.
func (a *API) listExports(w http.ResponseWriter, r *http.Request) error {
	query := parseQuery(r.URL)
	page, err := query.page()
	if err != nil {
		return err
	}
	page.limit = cmp.Or(page.limit, defaultPageSize)
	text, _, err := query.get("q")
	if err != nil {
		return err
	}
	ctx, cancel := a.storeContext(r)
	defer cancel()
	list, err := a.exports.List(ctx, exports.Filter{Contains: text, After: page.after, Limit: page.limit + 1})
	if err != nil {
		return err
	}
	if len(list) > page.limit {
		list = list[:page.limit]
		query.setLink(w.Header(), page, list[len(list)-1].ID)
	}
	records := make([]adminExportRecord, len(list))
	for i, export := range list {
		records[i] = newAdminExportRecord(export)
	}
	body, err := json.Marshal(records, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	return a.sendCompressible(w, r, body)
}

func (a *API) getExport(ctx context.Context, id int64, _ noBody) (adminExportRecord, error) {
	export, err := a.exports.Get(ctx, id)
	return newAdminExportRecord(export), noExport(err)
}

// exportOf returns the export of the id in the path of a request without input.
func (a *API) exportOf(w http.ResponseWriter, r *http.Request) (exports.Export, error) {
	id, err := pathID(r)
	if err != nil {
		return exports.Export{}, err
	}
	drain(w, r)
	ctx, cancel := a.storeContext(r)
	defer cancel()
	export, err := a.exports.Get(ctx, id)
	return export, noExport(err)
}

// deleteExport reads the export first, so that the log shows its source.
func (a *API) deleteExport(w http.ResponseWriter, r *http.Request) error {
	export, err := a.exportOf(w, r)
	if err != nil {
		return err
	}
	recordOf(w).touched = nil // the same without its source
	touchExport(w, export.SourceURL, export.ID)
	ctx, cancel := a.storeContext(r)
	defer cancel()
	if err := a.exports.Remove(ctx, export.ID); err != nil {
		return noExport(err)
	}
	return encode(w, http.StatusOK, messageResponse{"Export deleted."})
}

type checkedExportResponse struct {
	OK         bool   `json:"ok"`
	Size       *int64 `json:"size"`
	Type       string `json:"type"`
	FileName   string `json:"fileName"`
	Resumable  bool   `json:"resumable"`
	DurationMS int64  `json:"durationMs"`
}

type failedExportResponse struct {
	OK     bool   `json:"ok"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// checkExport opens the file of an export as a download does, and responds with
// what the download would send or why it would fail.
func (a *API) checkExport(w http.ResponseWriter, r *http.Request) error {
	export, err := a.exportOf(w, r)
	if err != nil {
		return err
	}
	start := time.Now()
	check, err := a.exports.Check(r.Context(), export, prefetchBytes)
	if err != nil {
		out := lookupError(err)
		if r.Context().Err() == nil {
			a.logFailure(w, r, slog.LevelWarn, "export check failed", http.StatusOK, "code", out.code, "error", err)
		}
		return encode(w, http.StatusOK, failedExportResponse{Code: out.code, Reason: failureReason(export, err)})
	}
	body := checkedExportResponse{
		OK:         true,
		Type:       downloadContentType(check.Type),
		FileName:   check.Name,
		Resumable:  check.Resumable,
		DurationMS: time.Since(start).Milliseconds(),
	}
	if check.Size >= 0 {
		body.Size = &check.Size
	}
	return encode(w, http.StatusOK, body)
}

// failureReason describes why a file cannot be opened, without the secrets of its
// URL and without the details of the network.
func failureReason(export exports.Export, err error) string {
	reason := "cannot be fetched"
	switch {
	case errors.Is(err, exports.ErrTimeout):
		reason = "takes too long"
	case errors.Is(err, exports.ErrForbidden):
		reason = "is not allowed"
	case errors.Is(err, exports.ErrGone):
		reason = "does not exist"
	}
	return exports.RedactURL(export.ExportedURL) + " " + reason
}
