package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
)

// readyTimeout bounds how long a storage may take to count as ready.
const readyTimeout = 2 * time.Second

// Alive returns a handler that answers 200 as long as the process answers at
// all. It is not part of [Handler]: hosts choose where it stands, if anywhere.
func Alive() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(w, r)
		sayHealth(w, http.StatusOK, "ok\n")
	})
}

// Ready returns a handler that answers 200 if the storage of each service of
// the options answers within two seconds, else 503. It looks at Keys, Symbols,
// Exports and Logger, which gets the cause.
func Ready(options Options) http.Handler {
	a := newAPI(options)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(w, r)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), readyTimeout) // see storeContext
		defer cancel()
		if err := a.ready(ctx); err != nil {
			a.report(ctx, slog.LevelWarn, "not ready", "error", err)
			sayHealth(w, http.StatusServiceUnavailable, "storage unavailable\n")
			return
		}
		sayHealth(w, http.StatusOK, "ok\n")
	})
}

// ready asks each storage something small.
func (a *api) ready(ctx context.Context) error {
	if a.Keys != nil {
		if _, err := a.Keys.Get(ctx, 1); err != nil && !errors.Is(err, keys.ErrNotFound) {
			return err
		}
	}
	if a.Symbols != nil {
		if _, err := a.Symbols.FolderListVersion(ctx); err != nil {
			return err
		}
	}
	if a.Exports != nil {
		if _, err := a.Exports.Find(ctx, "ready?"); err != nil && !errors.Is(err, exports.ErrNotFound) {
			return err
		}
	}
	return nil
}

func sayHealth(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	io.WriteString(w, text)
}
