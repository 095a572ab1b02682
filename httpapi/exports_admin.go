package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

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
func (e exportEndpoints) listExports(c *call) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	page.Limit = cmp.Or(page.Limit, defaultPageSize)
	text, _, err := c.query().get("q")
	if err != nil {
		return err
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	list, err := e.service.List(ctx, exports.Filter{Contains: text}, exports.Range(page))
	if err != nil {
		return err
	}
	if list.More {
		c.setLink(page.Limit, list.Exports[len(list.Exports)-1].ID)
	}
	records := make([]adminExportRecord, len(list.Exports))
	for i, export := range list.Exports {
		records[i] = newAdminExportRecord(export)
	}
	body, err := marshal(records)
	if err != nil {
		return err
	}
	return c.sendCompressible(body)
}

func (e exportEndpoints) getExport(ctx context.Context, t target) (reply, error) {
	export, err := e.service.Get(ctx, t.id)
	if err != nil {
		return reply{}, noExport(err)
	}
	return jsonReply(newAdminExportRecord(export))
}

// exportOf returns the export of the id in the path of a request without input.
func (e exportEndpoints) exportOf(c *call) (exports.Export, error) {
	id, err := c.id()
	if err != nil {
		return exports.Export{}, err
	}
	c.drain()
	ctx, cancel := c.storeContext()
	defer cancel()
	export, err := e.service.Get(ctx, id)
	return export, noExport(err)
}

// deleteExport reads the export first, so that the log shows its source.
func (e exportEndpoints) deleteExport(c *call) error {
	export, err := e.exportOf(c)
	if err != nil {
		return err
	}
	c.touched = nil // the same without its source
	c.touchExport(export.SourceURL, export.ID)
	ctx, cancel := c.storeContext()
	defer cancel()
	if err := e.service.Remove(ctx, export.ID); err != nil {
		return noExport(err)
	}
	return c.encode(http.StatusOK, messageResponse{"Export deleted."})
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
func (e exportEndpoints) checkExport(c *call) error {
	export, err := e.exportOf(c)
	if err != nil {
		return err
	}
	start := time.Now()
	check, err := e.service.Check(c.r.Context(), export, prefetchBytes)
	if err != nil {
		out := lookupError(err)
		if !c.disconnected() {
			c.logFailure(slog.LevelWarn, "export check failed", http.StatusOK, "code", out.code, "error", err)
		}
		return c.encode(http.StatusOK, failedExportResponse{Code: out.code, Reason: failureReason(export, err)})
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
	return c.encode(http.StatusOK, body)
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
