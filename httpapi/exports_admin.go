package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/exports"
)

type registerExportRequest struct {
	SourceFileURL string            `json:"sourceFileUrl"`
	ExportedURL   string            `json:"exportedUrl"`
	FileName      optional[*string] `json:"fileName"`
	Tenant        jsontext.Value    `json:"tenant"`
}

type registerExportResponse struct {
	Success bool         `json:"success"`
	Record  exportRecord `json:"record"`
}

type exportRecord struct {
	ID            int64   `json:"id"`
	SourceFileURL string  `json:"sourceFileUrl"`
	ExportedURL   string  `json:"exportedUrl"`
	FileName      *string `json:"fileName"`
	CreatedAt     string  `json:"createdAt"`
	UpdatedAt     string  `json:"updatedAt"`
}

func newExportRecord(export exports.Export) exportRecord {
	return exportRecord{
		ID:            export.ID,
		SourceFileURL: export.SourceURL,
		ExportedURL:   export.ExportedURL,
		FileName:      orNull(export.FileName, export.FileName != ""),
		CreatedAt:     formatTime(export.CreatedAt),
		UpdatedAt:     formatTime(export.UpdatedAt),
	}
}

func (e exportEndpoints) register(c *call) error {
	var in registerExportRequest
	if err := c.decode(&in); err != nil {
		return err
	}
	c.items = exports.BatchOf(in.SourceFileURL)
	if err := c.permitItems(e.all, c.items); err != nil {
		return err
	}
	isAdmin := c.actor != ""
	if e.tenants && isAdmin {
		if in.Tenant != nil && json.Unmarshal(in.Tenant, &c.tenant) != nil || in.Tenant.Kind() == 'n' || !validTenant(c.tenant) {
			return invalidRequest("tenant must be a string, empty or like the owner of a key")
		}
	}
	registration := exports.Registration{
		SourceURL:   in.SourceFileURL,
		ExportedURL: in.ExportedURL,
		FileName:    in.FileName.value,
		By:          cmp.Or(c.actorName(), anyone),
		OwnOnly:     e.ownOnly && !isAdmin,
		PublicOnly:  e.tenants && !isAdmin,
	}
	if in.FileName.set && in.FileName.value == nil {
		registration.FileName = new(string)
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	export, created, err := e.all.Tenant(c.tenant).Register(ctx, registration)
	c.items[0].Export = &export
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	record := newExportRecord(export)
	if !in.FileName.set && c.verified && !c.key.Allows(ScopeExportsRead) {
		record.FileName = nil // that of an earlier registration
	}
	return c.encode(status, registerExportResponse{Success: true, Record: record})
}

// adminExportRecord is an export as administrators see it.
type adminExportRecord struct {
	exportRecord
	RegisteredBy *int64  `json:"registeredBy"`    // id of a client key; administrators are null
	Tenant       *string `json:"tenant,omitzero"` // with Options.Tenant
}

func (e exportEndpoints) adminRecord(export exports.Export) adminExportRecord {
	record := adminExportRecord{exportRecord: newExportRecord(export), Tenant: orNull(export.Tenant, e.tenants)}
	if id, ok := strings.CutPrefix(export.RegisteredBy, "key "); ok {
		if id, err := strconv.ParseInt(id, 10, 64); err == nil {
			record.RegisteredBy = &id
		}
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

// listExports responds with a page of exports. It reads some at a time, because their URLs
// may be long.
func (e exportEndpoints) listExports(c *call) (err error) {
	filter := exports.Filter{}
	if filter.Contains, _, err = c.query().get("q"); err != nil {
		return err
	}
	if e.tenants {
		if filter.Tenant, err = c.query().pointer("tenant"); err != nil {
			return err
		}
	}
	return sendPages(c, pages[exports.Export]{
		read: func(ctx context.Context, selected page) ([]exports.Export, bool, error) {
			list, err := e.all.List(ctx, filter, exports.Range(selected))
			return list.Exports, list.More, err
		},
		append: func(dst []byte, export *exports.Export) []byte {
			return append(dst, marshal(e.adminRecord(*export))...)
		},
		id:           func(export *exports.Export) int64 { return export.ID },
		size:         func(export *exports.Export) int64 { return 3 * exportSize(*export) },
		atOnce:       20,
		defaultLimit: defaultPageSize,
	})
}

func (e exportEndpoints) getExport(ctx context.Context, c *call) (reply, error) {
	export, err := e.all.Get(ctx, c.id)
	return reply{body: marshal(e.adminRecord(export))}, noExport(err)
}

// exportOf returns the export of the id in the path of a request without input.
func (e exportEndpoints) exportOf(c *call) (exports.Export, error) {
	c.drain()
	ctx, cancel := c.storeContext()
	defer cancel()
	export, err := e.all.Get(ctx, c.id)
	return export, noExport(err)
}

// deleteExport reads the export first, so that the log shows its source.
func (e exportEndpoints) deleteExport(c *call) error {
	export, err := e.exportOf(c)
	switch {
	case err == nil:
		c.touched = nil // the same without its source
		c.items = []exports.BatchItem{{SourceURL: export.SourceURL, Export: &export}}
	case err != errNoExport: // which only a write confirms
		return err
	}
	return c.respond(http.StatusOK, func(ctx context.Context) (reply, error) {
		return messageReply("Export deleted.", noExport(e.all.Delete(ctx, c.id)))
	})
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
	check, err := e.all.Check(c.r.Context(), export, prefetchBytes)
	if err != nil {
		out := lookupError(err)
		if !c.disconnected() {
			c.logFailure(slog.LevelWarn, "export check failed", http.StatusOK, "code", out.code, "error", err)
		}
		return c.encode(http.StatusOK, failedExportResponse{Code: out.code, Reason: failureReason(export, err)})
	}
	return c.encode(http.StatusOK, checkedExportResponse{
		OK:         true,
		Size:       orNull(check.Size, check.Size >= 0),
		Type:       downloadContentType(check.Type),
		FileName:   check.Name,
		Resumable:  check.Resumable,
		DurationMS: time.Since(start).Milliseconds(),
	})
}

// failureReason describes why a file cannot be opened, without the secrets of its
// URL.
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
	if cause, ok := errors.AsType[*exports.CauseError](err); ok {
		reason += ": " + cause.Cause
	}
	return exports.RedactURL(export.ExportedURL) + " " + reason
}
