package httpapi

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/auth"
	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// API is the [http.Handler] of all routes. Its other methods authenticate the
// application's own routes; they share its rate limiter and Observe. All methods
// are safe for concurrent use.
type API struct {
	options     Options // without AdminKeys
	keys        *keys.Service
	symbols     *symbols.Service
	exports     *exports.Service
	auth        *auth.Checker
	crossOrigin *http.CrossOriginProtection
	memory      *budget.Budget[client]
	streams     *streamLimiter // downloads
	changes     *streamLimiter // streams of changes
	turns       *turns
	refusals    *refusals
	cors        *cors
	prefix      string // with a slash before it, or empty
	log         *slog.Logger
	mux         *http.ServeMux

	warnBuffered func() // logs once
}

// Format implements [fmt.Formatter] for all verbs. It prints no state, which other
// goroutines change.
func (a *API) Format(f fmt.State, _ rune) { io.WriteString(f, "httpapi.API") }
