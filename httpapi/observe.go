package httpapi

import (
	"cmp"
	"context"
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
	TokenID   string        // the first 8 hex digits of the SHA-256 of its page token, or empty; no metric label
	Actor     string        // "admin 1", counting AdminKeys from 1, "key 7", or that of AuthenticateAdmin
	ClientIP  string        // of Options.ClientIP, or the remote address
	RequestID string

	// Error is why the API failed, with its cause: of a response with status 5xx, or an
	// incomplete one. It is for logs, not for clients, and empty if the client has
	// disconnected.
	Error string

	// Resources are what the request asked for, also if it was denied, and what
	// it created. Requests of a download link have all sources of the link, also those
	// that it skips. Raw keys in a body are none: keys.Service logs the ids of their keys.
	Resources []Resource
}

// Resource is a record in an [Observation].
type Resource struct {
	Kind string // "key", "folder", "symbol", "trash" or "export"
	ID   int64  // 0 if unknown, as for a source without an export, or of a link
	URL  string // the source of an export, as exports.RedactURL returns it
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

// LogRequests returns a function for [Options.Observe] that logs each request at info
// level, failures of the API with their Error at warn or error level, and those with the
// method OPTIONS at debug level: an access log and an audit log. Of more than 100 resources
// it logs the first ones, and their number as resourceCount.
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
		for _, text := range []slog.Attr{slog.String("actor", o.Actor), slog.String("token", o.TokenID), slog.String("code", o.Code)} {
			if text.Value.String() != "" {
				attrs = append(attrs, text)
			}
		}
		if o.Aborted {
			attrs = append(attrs, slog.Bool("aborted", true))
		}
		if len(o.Resources) > 0 {
			names := make([]string, min(len(o.Resources), 100))
			for i := range names {
				names[i] = o.Resources[i].String()
			}
			attrs = append(attrs, slog.Any("resources", names))
			if len(names) < len(o.Resources) {
				attrs = append(attrs, slog.Int("resourceCount", len(o.Resources)))
			}
		}
		level := slog.LevelInfo
		if o.Method == http.MethodOptions {
			level = slog.LevelDebug
		}
		if o.Error != "" {
			attrs = append(attrs, slog.String("error", o.Error))
			level = failureLevel(o.Status)
		}
		log.LogAttrs(ctx, level, "request", attrs...)
	}
}

// touch adds records of a kind to the observation of the request.
func (c *call) touch(kind string, ids ...int64) {
	if c.api.options.Observe == nil {
		return
	}
	for _, id := range ids {
		c.touched = append(c.touched, Resource{Kind: kind, ID: id})
	}
}

// touchItems adds the exports of the items that the request asks for, whose memory is free
// then.
func (c *call) touchItems() {
	if c.api.options.Observe != nil { // redacting takes time
		for _, item := range c.items {
			id := cmp.Or(item.Export, new(exports.Export)).ID
			c.touched = append(c.touched, Resource{Kind: "export", ID: id, URL: exports.RedactURL(item.SourceURL)})
		}
	}
	c.items = nil
}

// observe calls Observe if it is set. A request that RequireClientKey has passed
// to the API itself is observed once, with what the API knows.
func (c *call) observe() {
	if c.api.options.Observe == nil {
		return
	}
	c.touchItems()
	if outer := c.outer; outer != nil && outer.observes {
		outer.mu.Lock()
		defer outer.mu.Unlock()
		outer.route, outer.code, outer.actor, outer.touched = c.route, c.code, c.actor, c.touched
		outer.failure, outer.aborted = c.failure, c.aborted
		if c.keyID != 0 {
			outer.keyID, outer.tokenID = c.keyID, c.tokenID
		}
		return
	}
	c.api.options.Observe(c.r.Context(), Observation{
		Method:    knownMethod(c.r.Method),
		Route:     c.route,
		Status:    c.w.status,
		Code:      c.code,
		Bytes:     c.w.bytes,
		Start:     c.start,
		Duration:  time.Since(c.start),
		Aborted:   c.aborted,
		KeyID:     c.keyID,
		TokenID:   c.tokenID,
		Actor:     c.actorName(),
		ClientIP:  c.clientIP(),
		RequestID: c.requestID(),
		Error:     c.failure,
		Resources: c.touched,
	})
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "OTHER"
}
