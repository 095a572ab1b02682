package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"example.com/canvasback/exports"
)

// Alive returns a liveness check, which always responds 200. It is not a route of
// the API: the application chooses its path.
func Alive() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(w, r, r.Body)
		writeHealth(w, http.StatusOK, "ok\n")
	})
}

// Ready returns a readiness check. It responds 200 if the store of each service
// responds within two seconds, and otherwise 503. It logs transitions between the
// two with their cause. A line of each detail follows the result, such as the state of
// the failover fence; everybody who can reach the check reads it.
func (a *API) Ready(details ...func() string) http.Handler {
	var failing atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(w, r, r.Body)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 2*time.Second) // see storeContext
		defer cancel()
		status, text := http.StatusOK, "ok\n"
		if err := a.checkStores(ctx); err != nil {
			status, text = http.StatusServiceUnavailable, "storage unavailable\n"
			if !failing.Swap(true) {
				a.options.Logger.WarnContext(ctx, "not ready", "error", err)
			}
		} else {
			a.loadSearchIndex()
			if failing.Swap(false) {
				a.options.Logger.InfoContext(ctx, "ready")
			}
		}
		for _, detail := range details {
			text += detail() + "\n"
		}
		writeHealth(w, status, text)
	})
}

// checkStores runs a small query on each store.
func (a *API) checkStores(ctx context.Context) error {
	if a.options.Keys != nil {
		if err := a.options.Keys.Ready(ctx); err != nil {
			return err
		}
	}
	if a.options.Symbols != nil {
		if _, err := a.options.Symbols.FolderListVersion(ctx); err != nil {
			return err
		}
	}
	if a.options.Exports != nil {
		if _, err := a.options.Exports.Get(ctx, 1); err != nil && !errors.Is(err, exports.ErrNotFound) {
			return err
		}
	}
	return nil
}

func writeHealth(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	io.WriteString(w, text)
}
