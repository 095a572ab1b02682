package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/auth"
	"example.com/canvasback/httpapi/internal/bodies"
	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/httpapi/internal/linkserve"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// Errors of the HTTP layer.
var (
	errNoRoute          = errors.New("no such route")
	errMethodNotAllowed = errors.New("method not allowed on this route")
	errPanic            = errors.New("panic")
	errTooLarge         = errors.New("body is too large")
	errCharset          = errors.New("the charset of Content-Type must be UTF-8")
	errMediaType        = errors.New("Content-Type must be application/json")
	errNoExport         = errors.New("no such export")
	errContentEncoding  = errors.New("Content-Encoding is not supported")
	errChanged          = errors.New("changed in the meantime")
	errLoop             = errors.New("a download link cannot be the file of an export")

	errAdminLogin  = errors.New("not logged in as an administrator")
	errCrossOrigin = errors.New("a page of another origin cannot use this route")

	errTokenOfToken = errors.New("a page token cannot make page tokens")
)

// invalidRequest is a 400 with this message.
type invalidRequest string

func (e invalidRequest) Error() string { return string(e) }

// errorResponse is a row of the error table. If message is empty, the response
// has the text of the error, which is written for clients.
type errorResponse struct {
	err        error
	status     int
	code       string
	message    string
	retryAfter time.Duration // zero if it is unknown
}

// errorTable maps errors to responses. The first row that matches applies, so the
// errors of an export come before those of its store.
var errorTable = []errorResponse{
	{errNoRoute, http.StatusNotFound, "not_found", "", 0},
	{errMethodNotAllowed, http.StatusMethodNotAllowed, "method_not_allowed", "", 0},
	{errTooLarge, http.StatusRequestEntityTooLarge, "too_large", "", 0},
	{errCharset, http.StatusUnsupportedMediaType, "unsupported_media_type", "", 0},
	{errMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type", "", 0},
	{errContentEncoding, http.StatusUnsupportedMediaType, "unsupported_media_type", "", 0},

	{linkserve.ErrUnsatisfiable, http.StatusRequestedRangeNotSatisfiable, "range_not_satisfiable", "", 0},
	{linkserve.ErrPrecondition, http.StatusPreconditionFailed, "precondition_failed", "", 0},
	{linkserve.ErrRevoked, http.StatusForbidden, "forbidden", "", 0},
	{errLoop, http.StatusForbidden, "forbidden", "", 0},
	{errNoExport, http.StatusNotFound, "not_found", "", 0},
	{exports.ErrNotOwner, http.StatusForbidden, "forbidden", "another key has registered the export of this source", 0},
	{exports.ErrPrivate, http.StatusForbidden, "forbidden", "only an administrator may register private files, such as those of this server or its buckets", 0},

	{auth.ErrAdminKeyMissing, http.StatusUnauthorized, "unauthorized", "", 0},
	{auth.ErrAdminKeyWrong, http.StatusUnauthorized, "unauthorized", "", 0},
	{auth.ErrAdminOff, http.StatusForbidden, "forbidden", "", 0},
	{auth.ErrClientKeyMissing, http.StatusUnauthorized, "unauthorized", "", 0},
	{auth.ErrTokenInvalid, http.StatusUnauthorized, "unauthorized", "", 0},
	{errTokenOfToken, http.StatusForbidden, "forbidden", "", 0},
	{errAdminLogin, http.StatusUnauthorized, "unauthorized", errAdminLogin.Error(), 0},
	{errCrossOrigin, http.StatusForbidden, "forbidden", "", 0},
	{keys.ErrMalformed, http.StatusUnauthorized, "unauthorized", "x-api-key is not a valid key", 0},
	{keys.ErrUnknown, http.StatusUnauthorized, "unauthorized", "x-api-key is not a valid key", 0},
	{keys.ErrInactive, http.StatusForbidden, "forbidden", "this API key is inactive", 0},
	{keys.ErrExpired, http.StatusForbidden, "forbidden", "this API key has expired", 0},
	{keys.ErrTokenExpired, http.StatusForbidden, "forbidden", "this page token has expired", 0},
	{keys.ErrNotPermitted, http.StatusForbidden, "forbidden", "", 0},

	{keys.ErrInvalid, http.StatusBadRequest, "invalid_request", "", 0},
	{symbols.ErrInvalid, http.StatusBadRequest, "invalid_request", "", 0},
	{exports.ErrInvalid, http.StatusBadRequest, "invalid_request", "", 0},
	{bundle.ErrInvalid, http.StatusBadRequest, "invalid_request", "", 0},
	{bundle.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large", "", 0},

	{keys.ErrNotFound, http.StatusNotFound, "not_found", "no such API key", 0},
	{symbols.ErrFolderNotFound, http.StatusNotFound, "not_found", "no such folder", 0},
	{symbols.ErrTrashNotFound, http.StatusNotFound, "not_found", "no such entry in the trash", 0},
	{symbols.ErrFolderGone, http.StatusConflict, "conflict", "the folder of the symbol was deleted, so folderId must name another", 0},
	{symbols.ErrSymbolNotFound, http.StatusNotFound, "not_found", "no such symbol", 0},
	{exports.ErrLinkNotFound, http.StatusNotFound, "not_found", "no such link", 0},
	{exports.ErrNotFound, http.StatusNotFound, "not_found", "no export is registered for this source", 0},
	{exports.ErrTooManyLinks, http.StatusTooManyRequests, "too_many_requests", exports.ErrTooManyLinks.Error(), time.Minute},
	{exports.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large", "", 0},
	{bodies.ErrNoImage, http.StatusNotFound, "not_found", "", 0},
	{symbols.ErrFolderNameTaken, http.StatusConflict, "conflict", "name is taken by another folder", 0},
	{symbols.ErrChanged, http.StatusPreconditionFailed, "precondition_failed", errChanged.Error(), 0},
	{errChanged, http.StatusPreconditionFailed, "precondition_failed", "", 0},

	{exports.ErrTimeout, http.StatusGatewayTimeout, "export_timeout", "the exported file takes too long", 0},
	{exports.ErrFailed, http.StatusBadGateway, "export_failed", "the exported file cannot be fetched", 0},

	{budget.ErrExhausted, http.StatusServiceUnavailable, "unavailable", "too many large requests are being processed", time.Second},
	{keys.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", unavailableMessage, time.Second},
	{symbols.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", unavailableMessage, time.Second},
	{exports.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", unavailableMessage, time.Second},
}

const unavailableMessage = "the service is not available right now"

func lookupError(err error) errorResponse {
	const tooMany, code = http.StatusTooManyRequests, "too_many_requests"
	if notReady, ok := errors.AsType[*exports.NotReadyError](err); ok {
		const message = "the exported file is not ready yet"
		return errorResponse{err, http.StatusServiceUnavailable, "not_ready", message, notReady.RetryAfter}
	}
	switch { // an Opener or Resolve of the application may have wrapped any other error in these
	case errors.Is(err, exports.ErrTooManyLinks): // of all URLs of a batch
	case errors.Is(err, exports.ErrTimeout):
		err = exports.ErrTimeout
	case errors.Is(err, exports.ErrForbidden), errors.Is(err, exports.ErrFailed):
		err = exports.ErrFailed
	}
	if text, ok := errors.AsType[invalidRequest](err); ok {
		return errorResponse{err, http.StatusBadRequest, "invalid_request", string(text), 0}
	}
	if limit, ok := errors.AsType[*exports.LinkLimitError](err); ok {
		return errorResponse{err, tooMany, code, limit.Reason, limit.RetryAfter}
	}
	if denied, ok := errors.AsType[*DeniedError](err); ok {
		if denied.RetryAfter > 0 {
			return errorResponse{err, tooMany, code, denied.Message, denied.RetryAfter}
		}
		return errorResponse{err, http.StatusForbidden, "forbidden", denied.Message, 0}
	}
	if taken, ok := errors.AsType[*keys.TakenError](err); ok {
		return errorResponse{err, http.StatusConflict, "conflict", taken.Error(), 0}
	}
	if missing, ok := errors.AsType[*keys.MissingError](err); ok {
		return errorResponse{err, http.StatusNotFound, "not_found", missing.Error(), 0}
	}
	if limit, ok := errors.AsType[*auth.LimitError](err); ok {
		return errorResponse{err, tooMany, code, limit.Error(), limit.Wait}
	}
	if missing, ok := errors.AsType[*symbols.MissingError](err); ok && !errors.Is(err, symbols.ErrUnavailable) {
		return errorResponse{err, http.StatusNotFound, "not_found", strings.TrimPrefix(missing.Error(), "symbols: "), 0}
	}
	for _, row := range errorTable {
		if errors.Is(err, row.err) {
			row.message = cmp.Or(row.message, err.Error())
			return row
		}
	}
	return errorResponse{err, http.StatusInternalServerError, "internal", "internal error", 0}
}

func failureLevel(status int) slog.Level {
	if status == http.StatusInternalServerError {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// isUnavailable reports whether err is that of a store that is not available.
func isUnavailable(err error) bool {
	return errors.Is(err, keys.ErrUnavailable) || errors.Is(err, symbols.ErrUnavailable) || errors.Is(err, exports.ErrUnavailable)
}

// DeniedError is an error of [Options.Authorize], [Options.Tenant] or
// [Options.AuthenticateAdmin] with a text for the client, or none. The response is 403, or
// 429 with Retry-After if RetryAfter is positive.
type DeniedError struct {
	Message    string
	RetryAfter time.Duration

	cause error // for the log; it is not wrapped, because it must not select another response
}

func (e *DeniedError) Error() string {
	if e.cause == nil {
		return e.Message
	}
	return e.cause.Error()
}

// denied returns a DeniedError for an error of the application, or
// [keys.ErrUnavailable] if that of a store is the cause.
func denied(err error) error {
	out := &DeniedError{Message: "this is not permitted", cause: err}
	if known, ok := errors.AsType[*DeniedError](err); ok {
		out.Message, out.RetryAfter = cmp.Or(known.Message, out.Message), known.RetryAfter
	} else if isUnavailable(err) {
		return fmt.Errorf("%w: %v", keys.ErrUnavailable, err) //nolint:errorlint // the cause must not select the response
	}
	return out
}
