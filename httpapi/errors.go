package httpapi

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
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
	errZipType          = errors.New("Content-Type must be application/zip")
	errNoExport         = errors.New("no such export")
	errContentEncoding  = errors.New("Content-Encoding is not supported")
	errLoop             = errors.New("a download link cannot be the file of an export")

	errAdminLogin  = errors.New("not logged in as an administrator")
	errCrossOrigin = errors.New("a page of another origin cannot use this route")
)

// invalidRequest is a 400 with this message.
type invalidRequest string

func (e invalidRequest) Error() string { return string(e) }

// errorResponse is a row of the error table. If message is empty, the response
// has the text of the error, which is written for clients.
type errorResponse struct {
	err     error
	status  int
	code    string
	message string
}

// errorTable maps errors to responses. The first row that matches applies, so the
// errors of an export come before those of its store.
var errorTable = []errorResponse{
	{errNoRoute, http.StatusNotFound, "not_found", ""},
	{errMethodNotAllowed, http.StatusMethodNotAllowed, "method_not_allowed", ""},
	{errTooLarge, http.StatusRequestEntityTooLarge, "too_large", ""},
	{errCharset, http.StatusUnsupportedMediaType, "unsupported_media_type", ""},
	{errMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type", ""},
	{errZipType, http.StatusUnsupportedMediaType, "unsupported_media_type", ""},
	{errContentEncoding, http.StatusUnsupportedMediaType, "unsupported_media_type", ""},

	{linkserve.ErrUnsatisfiable, http.StatusRequestedRangeNotSatisfiable, "range_not_satisfiable", ""},
	{linkserve.ErrPrecondition, http.StatusPreconditionFailed, "precondition_failed", ""},
	{linkserve.ErrRevoked, http.StatusForbidden, "forbidden", ""},
	{errLoop, http.StatusForbidden, "forbidden", ""},
	{errNoExport, http.StatusNotFound, "not_found", ""},
	{exports.ErrNotOwner, http.StatusForbidden, "forbidden", "another key has registered the export of this source"},

	{auth.ErrAdminKeyMissing, http.StatusUnauthorized, "unauthorized", ""},
	{auth.ErrAdminKeyWrong, http.StatusUnauthorized, "unauthorized", ""},
	{auth.ErrAdminOff, http.StatusForbidden, "forbidden", ""},
	{auth.ErrClientKeyMissing, http.StatusUnauthorized, "unauthorized", ""},
	{errAdminLogin, http.StatusUnauthorized, "unauthorized", errAdminLogin.Error()},
	{errCrossOrigin, http.StatusForbidden, "forbidden", ""},
	{keys.ErrMalformed, http.StatusUnauthorized, "unauthorized", "x-api-key is not a valid key"},
	{keys.ErrUnknown, http.StatusUnauthorized, "unauthorized", "x-api-key is not a valid key"},
	{keys.ErrInactive, http.StatusForbidden, "forbidden", "this API key is inactive"},
	{keys.ErrExpired, http.StatusForbidden, "forbidden", "this API key has expired"},

	{keys.ErrInvalid, http.StatusBadRequest, "invalid_request", ""},
	{symbols.ErrInvalid, http.StatusBadRequest, "invalid_request", ""},
	{exports.ErrInvalid, http.StatusBadRequest, "invalid_request", ""},
	{bundle.ErrInvalid, http.StatusBadRequest, "invalid_request", ""},
	{bundle.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large", ""},

	{keys.ErrNotFound, http.StatusNotFound, "not_found", "no such API key"},
	{symbols.ErrFolderNotFound, http.StatusNotFound, "not_found", "no such folder"},
	{symbols.ErrSymbolNotFound, http.StatusNotFound, "not_found", "no such symbol"},
	{exports.ErrLinkNotFound, http.StatusNotFound, "not_found", "no such link"},
	{exports.ErrNotFound, http.StatusNotFound, "not_found", "no export is registered for this source"},
	{bodies.ErrNoImage, http.StatusNotFound, "not_found", ""},
	{symbols.ErrFolderNameTaken, http.StatusConflict, "conflict", "name is taken by another folder"},
	{symbols.ErrChanged, http.StatusPreconditionFailed, "precondition_failed", "changed in the meantime"},

	{exports.ErrTimeout, http.StatusGatewayTimeout, "export_timeout", "the exported file takes too long"},
	{exports.ErrForbidden, http.StatusBadGateway, "export_failed", "the exported file cannot be fetched"},
	{exports.ErrFailed, http.StatusBadGateway, "export_failed", "the exported file cannot be fetched"},

	{budget.ErrExhausted, http.StatusServiceUnavailable, "unavailable", "too many large requests are being processed"},
	{keys.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", unavailableMessage},
	{symbols.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", unavailableMessage},
	{exports.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", unavailableMessage},
}

const unavailableMessage = "the service is not available right now"

// lookupError returns the response to an error.
func lookupError(err error) errorResponse {
	if text, ok := errors.AsType[invalidRequest](err); ok {
		return errorResponse{err, http.StatusBadRequest, "invalid_request", string(text)}
	}
	if limit, ok := errors.AsType[*exports.LinkLimitError](err); ok {
		return errorResponse{err, http.StatusTooManyRequests, "too_many_requests", limit.Reason}
	}
	if permit, ok := errors.AsType[*permitError](err); ok {
		return permit.response()
	}
	if limit, ok := errors.AsType[*auth.LimitError](err); ok {
		return errorResponse{err, http.StatusTooManyRequests, "too_many_requests", limit.Error()}
	}
	for _, row := range errorTable {
		if errors.Is(err, row.err) {
			if row.message == "" {
				row.message = err.Error()
			}
			return row
		}
	}
	return errorResponse{err, http.StatusInternalServerError, "internal", "internal error"}
}

// errorBody is the JSON body of every error response.
type errorBody struct {
	Message   string        `json:"message"`
	Code      string        `json:"code"`
	RequestID string        `json:"requestId"`
	Skipped   []skippedItem `json:"skipped,omitempty"`
	Rejected  []fileNote    `json:"rejected,omitempty"`
}

// fail writes the response to an error. The cause of the error is logged only.
func (c *call) fail(err error) {
	c.drain()
	out := lookupError(err)
	c.code = out.code
	c.logError(out, err)

	header := c.w.Header()
	// The endpoint may have set these for its own response.
	header.Set("Cache-Control", "no-store")
	for _, name := range []string{"Content-Disposition", "Content-Encoding", "Content-Security-Policy", "Etag", "Last-Modified", "Link"} {
		header.Del(name)
	}
	switch out.status {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", challenge(out.err))
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	case http.StatusTooManyRequests:
		header.Set("Retry-After", seconds(retryAfter(err)))
	}
	body := errorBody{Message: out.message, Code: out.code, RequestID: c.requestID()}
	if batch, ok := errors.AsType[*exports.BatchError](err); ok {
		body.Skipped = skippedItems(batch.Skipped)
		c.logSkipped(out.status, batch.Skipped)
	}
	if rejected, ok := errors.AsType[*bundle.RejectedError](err); ok {
		body.Rejected = fileNotes(rejected.Files)
	}
	c.encode(out.status, body)
}

// retryAfter returns how long the client has to wait, or zero.
func retryAfter(err error) time.Duration {
	if limit, ok := errors.AsType[*exports.LinkLimitError](err); ok {
		return limit.RetryAfter
	}
	if permit, ok := errors.AsType[*permitError](err); ok {
		return permit.RetryAfter
	}
	if limit, ok := errors.AsType[*auth.LimitError](err); ok {
		return limit.Wait
	}
	return 0
}

// seconds formats a duration for Retry-After, rounded up.
func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// challenge returns the WWW-Authenticate of a request rejected with err. The login
// of an application has no authentication scheme.
func challenge(err error) string {
	switch err {
	case errAdminLogin:
		return "Application"
	case auth.ErrAdminKeyMissing, auth.ErrAdminKeyWrong:
		return `ApiKey header="` + strings.ToLower(headerAdminKey) + `"`
	}
	return `ApiKey header="` + strings.ToLower(headerAPIKey) + `"`
}

// logError logs client errors at debug level, and others as warning or error.
func (c *call) logError(out errorResponse, err error) {
	level := slog.LevelDebug
	switch {
	case err == errPanic: // logged with its stack
		return
	case c.disconnected():
	case out.status == http.StatusInternalServerError:
		level = slog.LevelError
	case out.status > http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	c.logFailure(level, "request failed", out.status, "error", err)
}
