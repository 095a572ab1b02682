package httpapi

import (
	"net/http"
	"time"
)

// Observation describes one request to [Options.Observe]. It contains no secrets.
// Route, Method and Status have a bounded number of values, so they can be metric
// labels.
type Observation struct {
	Method    string        // "OTHER" if it is not an HTTP method
	Route     string        // of the API, such as "/symbol/folders/{id}"; else r.Pattern, or empty
	Status    int           // 0 if no header was written
	Bytes     int64         // of the response body
	Start     time.Time     // when the request header had been read
	Duration  time.Duration // until the response was complete
	Aborted   bool          // the response is incomplete
	KeyID     int64         // of the verified client key, or 0
	RequestID string
}

// observe calls Observe if it is set. A request that RequireClientKey has passed
// to the API itself is observed once, with the route of the API.
func (a *API) observe(w *response, r *http.Request) {
	if a.options.Observe == nil {
		return
	}
	if w.outer != nil && w.outer.api == a && w.outer.observed != nil {
		w.outer.observed.route = w.route
		return
	}
	a.options.Observe(r.Context(), Observation{
		Method:    knownMethod(r.Method),
		Route:     w.route,
		Status:    w.status,
		Bytes:     w.bytes,
		Start:     w.start,
		Duration:  time.Since(w.start),
		Aborted:   w.aborted,
		KeyID:     w.keyID,
		RequestID: requestID(w),
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
