package httpapi

import (
	"log/slog"
	"net/http"
	"time"
)

// Observation is what [Options.Observe] is told of a request: enough for a log
// line, a metric or a span. None of it is secret, and Route, Method and Status
// take few values, whatever clients send.
type Observation struct {
	Method    string        // of the request; "OTHER" if HTTP does not know it
	Route     string        // as in the reference, "/symbol/folders/{id}"; empty if there is none
	Status    int           // of the answer, or 0 if it was broken off before it began
	Bytes     int64         // of the answer's body
	Start     time.Time     // when the request's header had been read
	Duration  time.Duration // until the answer was complete
	BrokenOff bool          // the answer ended before it was complete
	KeyID     int64         // of the client key that was accepted, or 0
	RequestID string
}

// observe tells the host of a request that has been answered.
func (a *api) observe(w *response, r *http.Request, start time.Time) {
	defer func() {
		if reason := recover(); reason != nil {
			a.report(r.Context(), slog.LevelError, "panic in Options.Observe", "panic", reason, "requestId", requestID(w))
		}
	}()
	a.Observe(r.Context(), Observation{
		Method:    knownMethod(r.Method),
		Route:     w.route,
		Status:    w.status,
		Bytes:     w.bytes,
		Start:     start,
		Duration:  time.Since(start),
		BrokenOff: w.brokenOff,
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
