package httpapi

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/budget"
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
	errRange            = errors.New("range is not satisfiable")
	errPrecondition     = errors.New("the file has changed in the meantime")
	errNoExport         = errors.New("no such export")
	errContentEncoding  = errors.New("Content-Encoding is not supported")
	errLoop             = errors.New("a download link cannot be the file of an export")

	errAdminKeyMissing  = errors.New("x-admin-key is missing or sent more than once")
	errAdminKeyWrong    = errors.New("x-admin-key is not a valid key")
	errAdminOff         = errors.New("no admin key is configured on this server")
	errClientKeyMissing = errors.New("x-api-key is missing or sent more than once")
	errAdminLogin       = errors.New("not logged in as an administrator")
	errCrossOrigin      = errors.New("a page of another origin cannot use this route")
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

	{errRange, http.StatusRequestedRangeNotSatisfiable, "range_not_satisfiable", ""},
	{errPrecondition, http.StatusPreconditionFailed, "precondition_failed", ""},
	{errLinkKey, http.StatusForbidden, "forbidden", ""},
	{errLoop, http.StatusForbidden, "forbidden", ""},
	{errNoExport, http.StatusNotFound, "not_found", ""},
	{exports.ErrNotOwner, http.StatusForbidden, "forbidden", "another key has registered the export of this source"},

	{errAdminKeyMissing, http.StatusUnauthorized, "unauthorized", ""},
	{errAdminKeyWrong, http.StatusUnauthorized, "unauthorized", ""},
	{errAdminOff, http.StatusForbidden, "forbidden", ""},
	{errClientKeyMissing, http.StatusUnauthorized, "unauthorized", ""},
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
	{errNoImage, http.StatusNotFound, "not_found", ""},
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
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	drain(w, r)
	out := lookupError(err)
	recordOf(w).code = out.code
	a.logError(w, r, out, err)

	header := w.Header()
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
	body := errorBody{Message: out.message, Code: out.code, RequestID: requestID(w)}
	if batch, ok := errors.AsType[*exports.BatchError](err); ok {
		body.Skipped = skippedItems(batch.Skipped)
		a.logSkipped(w, r, out.status, batch.Skipped)
	}
	if rejected, ok := errors.AsType[*bundle.RejectedError](err); ok {
		body.Rejected = fileNotes(rejected.Files)
	}
	encode(w, out.status, body)
}

// retryAfter returns how long the client has to wait, or zero.
func retryAfter(err error) time.Duration {
	if limit, ok := errors.AsType[*exports.LinkLimitError](err); ok {
		return limit.RetryAfter
	}
	if permit, ok := errors.AsType[*permitError](err); ok {
		return permit.RetryAfter
	}
	return 0
}

// seconds formats a duration for Retry-After, rounded up.
func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// drain discards an unread request body, so that the connection can be reused. If
// the body is large or slow it sets Connection: close instead, because net/http
// would wait for the body before or after the response.
func drain(w http.ResponseWriter, r *http.Request) {
	const maxSize, timeout = 256 << 10, time.Second
	if r.ContentLength == 0 || r.ProtoMajor > 1 {
		return
	}
	control := http.NewResponseController(w)
	timed := control.SetReadDeadline(time.Now().Add(timeout)) == nil
	if timed && r.ContentLength <= maxSize && r.Header.Get("Expect") == "" {
		body := io.Reader(r.Body)
		if b, ok := r.Body.(*requestBody); ok {
			body = b.ReadCloser // without its rate
		}
		if _, err := io.CopyN(io.Discard, body, maxSize); err == io.EOF {
			control.SetReadDeadline(time.Time{})
			return
		}
	}
	w.Header().Set("Connection", "close")
}

// challenge returns the WWW-Authenticate of a request rejected with err. The login
// of an application has no authentication scheme.
func challenge(err error) string {
	switch err {
	case errAdminLogin:
		return "Application"
	case errAdminKeyMissing, errAdminKeyWrong:
		return `ApiKey header="` + strings.ToLower(headerAdminKey) + `"`
	}
	return `ApiKey header="` + strings.ToLower(headerAPIKey) + `"`
}

// logError logs client errors at debug level, and others as warning or error.
func (a *API) logError(w http.ResponseWriter, r *http.Request, out errorResponse, err error) {
	level := slog.LevelDebug
	switch {
	case err == errPanic: // logged with its stack
		return
	case r.Context().Err() != nil: // the client has disconnected
	case out.status == http.StatusInternalServerError:
		level = slog.LevelError
	case out.status > http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	a.logFailure(w, r, level, "request failed", out.status, "error", err)
}
