package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"example.com/canvasback/exports"
)

// Observation describes one request to [Options.Observe]. It contains no secrets.
// Route, Method, Status and Code have a bounded number of values, so they can be
// metric labels.
type Observation struct {
	Method    string        // "OTHER" if it is not an HTTP method
	Route     string        // of the API, such as "/symbol/folders/{id}"; else r.Pattern, or empty
	Status    int           // 0 if no header was written
	Code      string        // of an error response of the API, such as "not_found"
	Bytes     int64         // of the response body
	Start     time.Time     // when the request header had been read
	Duration  time.Duration // until the response was complete
	Aborted   bool          // the response is incomplete
	KeyID     int64         // of the client key, also of a rejected one, or 0
	Actor     string        // "admin 1", counting AdminKeys from 1, "key 7", or that of AuthenticateAdmin
	ClientIP  string        // of RateLimit.ClientIP, or the remote address
	RequestID string

	// Resources are what the request asked for, also if it was denied, and what
	// it created. Requests of a download link have those that they send.
	Resources []Resource
}

// Resource is a record in an [Observation].
type Resource struct {
	Kind string // "key", "folder", "symbol" or "export"
	ID   int64  // 0 if unknown, as for a source without an export, or of a link
	URL  string // the source of an export, without user info, query and fragment
}

// String returns the resource like "key 5" or "export 7 https://cad.example/a.dwg".
func (r Resource) String() string {
	text := r.Kind
	if r.ID != 0 {
		text += " " + strconv.FormatInt(r.ID, 10)
	}
	if r.URL != "" {
		text += " " + r.URL
	}
	return text
}

// maxLoggedResources limits the length of a line of LogRequests.
const maxLoggedResources = 100

// LogRequests returns a function for [Options.Observe] that logs each request at
// info level: an access log and an audit log. Of more than 100 resources it logs
// the first ones, and their number as resourceCount.
func LogRequests(log *slog.Logger) func(context.Context, Observation) {
	return func(ctx context.Context, o Observation) {
		attrs := []slog.Attr{
			slog.String("method", o.Method),
			slog.String("route", o.Route),
			slog.Int("status", o.Status),
			slog.Int64("bytes", o.Bytes),
			slog.Duration("duration", o.Duration),
			slog.String("clientIP", o.ClientIP),
			slog.String("requestId", o.RequestID),
		}
		if o.Actor != "" {
			attrs = append(attrs, slog.String("actor", o.Actor))
		}
		if o.Code != "" {
			attrs = append(attrs, slog.String("code", o.Code))
		}
		if o.Aborted {
			attrs = append(attrs, slog.Bool("aborted", true))
		}
		if len(o.Resources) > 0 {
			names := make([]string, min(len(o.Resources), maxLoggedResources))
			for i := range names {
				names[i] = o.Resources[i].String()
			}
			attrs = append(attrs, slog.Any("resources", names))
			if len(names) < len(o.Resources) {
				attrs = append(attrs, slog.Int("resourceCount", len(o.Resources)))
			}
		}
		log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
	}
}

// touch adds resources to the observation of a request.
func touch(w http.ResponseWriter, resources ...Resource) {
	if w := recordOf(w); w.observed {
		w.touched = append(w.touched, resources...)
	}
}

// touchExport adds the export of a source, which has the id 0 if there is none.
func touchExport(w http.ResponseWriter, source string, id int64) {
	if recordOf(w).observed { // redacting takes time
		touch(w, Resource{Kind: "export", ID: id, URL: exports.RedactURL(source)})
	}
}

// touchItems adds the exports of a batch.
func touchItems(w http.ResponseWriter, items []exports.BatchItem) {
	for _, item := range items {
		id := int64(0)
		if item.Export != nil {
			id = item.Export.ID
		}
		touchExport(w, item.SourceURL, id)
	}
}

// observe calls Observe if it is set. A request that RequireClientKey has passed
// to the API itself is observed once, with what the API knows.
func (a *API) observe(w *response, r *http.Request) {
	if a.options.Observe == nil {
		return
	}
	if w.outer != nil && w.outer.api == a && w.outer.observed != nil {
		outer := w.outer.observed
		outer.route, outer.code, outer.actor, outer.touched = w.route, w.code, w.actor, w.touched
		return
	}
	a.options.Observe(r.Context(), Observation{
		Method:    knownMethod(r.Method),
		Route:     w.route,
		Status:    w.status,
		Code:      w.code,
		Bytes:     w.bytes,
		Start:     w.start,
		Duration:  time.Since(w.start),
		Aborted:   w.aborted,
		KeyID:     w.keyID,
		Actor:     w.actorName(),
		ClientIP:  a.clientIP(r),
		RequestID: requestID(w),
		Resources: w.touched,
	})
}

func (a *API) clientIP(r *http.Request) string {
	if a.options.AuthRateLimit.ClientIP != nil {
		return a.options.AuthRateLimit.ClientIP(r)
	}
	return remoteHost(r)
}

func (w *response) actorName() string {
	if w.actor == "" && w.keyID != 0 {
		return fmt.Sprint("key ", w.keyID)
	}
	return w.actor
}

// logFailure logs a failure of a request. The status may not be written yet.
func (a *API) logFailure(w http.ResponseWriter, r *http.Request, level slog.Level, message string, status int, more ...any) {
	record := recordOf(w)
	a.log.Log(r.Context(), level, message, append([]any{
		"method", knownMethod(r.Method),
		"route", record.route,
		"status", status,
		"keyId", record.keyID,
		"requestId", requestID(w),
		"duration", time.Since(record.start),
	}, more...)...)
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "OTHER"
}
