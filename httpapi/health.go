package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
)

// readyTimeout limits the readiness check.
const readyTimeout = 2 * time.Second

// Alive returns a liveness check, which always responds 200. It is not a route of
// the API: the application chooses its path.
func Alive() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(w, r)
		writeHealth(w, http.StatusOK, "ok\n")
	})
}

// Ready returns a readiness check. It responds 200 if the store of each service
// responds within two seconds. Otherwise it responds 503 and logs the cause.
func (a *API) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(w, r)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), readyTimeout) // see storeContext
		defer cancel()
		if err := a.checkStores(ctx); err != nil {
			a.log.WarnContext(ctx, "readiness check failed", "error", err)
			writeHealth(w, http.StatusServiceUnavailable, "storage unavailable\n")
			return
		}
		writeHealth(w, http.StatusOK, "ok\n")
	})
}

// checkStores runs a small query on each store.
func (a *API) checkStores(ctx context.Context) error {
	if a.keys != nil {
		if _, err := a.keys.Get(ctx, 1); err != nil && !errors.Is(err, keys.ErrNotFound) {
			return err
		}
	}
	if a.symbols != nil {
		if _, err := a.symbols.FolderListVersion(ctx); err != nil {
			return err
		}
	}
	if a.exports != nil {
		if _, err := a.exports.Find(ctx, "ready?"); err != nil && !errors.Is(err, exports.ErrNotFound) {
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
