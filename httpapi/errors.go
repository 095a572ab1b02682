package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// Errors of the transport itself.
var (
	errNoRoute          = errors.New("no such route")
	errMethodNotAllowed = errors.New("method not allowed on this route")
	errPanic            = errors.New("panic")
	errTooLarge         = errors.New("body is too large")
	errMediaType        = errors.New("Content-Type must be application/json")
	errZipType          = errors.New("Content-Type must be application/zip")
	errContentEncoding  = errors.New("Content-Encoding is not supported")

	errAdminKeyMissing  = errors.New("x-admin-key is missing or sent more than once")
	errAdminKeyWrong    = errors.New("x-admin-key is not a valid key")
	errAdminOff         = errors.New("no admin key is configured on this server")
	errClientKeyMissing = errors.New("x-api-key is missing or sent more than once")
)

// invalidRequest is an error whose text is the answer.
type invalidRequest string

func (e invalidRequest) Error() string { return string(e) }

// failure is how an error is answered. An empty message stands for the
// error's own text, which was written to be shown then.
type failure struct {
	err     error
	status  int
	code    string
	message string
}

// failures are tried in order; the first one that the error wraps is the
// answer. An export's own failures come before those of the store beneath.
var failures = []failure{
	{errNoRoute, http.StatusNotFound, "not_found", ""},
	{errMethodNotAllowed, http.StatusMethodNotAllowed, "method_not_allowed", ""},
	{errTooLarge, http.StatusRequestEntityTooLarge, "too_large", ""},
	{errMediaType, http.StatusUnsupportedMediaType, "unsupported_media_type", ""},
	{errZipType, http.StatusUnsupportedMediaType, "unsupported_media_type", ""},
	{errContentEncoding, http.StatusUnsupportedMediaType, "unsupported_media_type", ""},

	{errAdminKeyMissing, http.StatusUnauthorized, "unauthorized", ""},
	{errAdminKeyWrong, http.StatusUnauthorized, "unauthorized", ""},
	{errAdminOff, http.StatusForbidden, "forbidden", ""},
	{errClientKeyMissing, http.StatusUnauthorized, "unauthorized", ""},
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
	{exports.ErrNotFound, http.StatusNotFound, "not_found", "no export is registered for this source"},
	{symbols.ErrFolderNameTaken, http.StatusConflict, "conflict", "name is taken by another folder"},
	{symbols.ErrChanged, http.StatusPreconditionFailed, "precondition_failed", "changed in the meantime"},

	{exports.ErrTimeout, http.StatusGatewayTimeout, "export_timeout", "the exported file takes too long"},
	{exports.ErrForbidden, http.StatusBadGateway, "export_failed", "the exported file cannot be fetched"},
	{exports.ErrFailed, http.StatusBadGateway, "export_failed", "the exported file cannot be fetched"},

	{keys.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", unavailableMessage},
	{symbols.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", unavailableMessage},
	{exports.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", unavailableMessage},
}

const unavailableMessage = "the service is not available right now"

// failureOf finds the answer to an error.
func failureOf(err error) failure {
	if text, ok := errors.AsType[invalidRequest](err); ok {
		return failure{err, http.StatusBadRequest, "invalid_request", string(text)}
	}
	if guesses, ok := errors.AsType[*tooManyGuesses](err); ok {
		return failure{err, http.StatusTooManyRequests, "too_many_requests", guesses.Error()}
	}
	for _, f := range failures {
		if errors.Is(err, f.err) {
			if f.message == "" {
				f.message = err.Error()
			}
			return f
		}
	}
	return failure{err, http.StatusInternalServerError, "internal", "internal error"}
}

// errorBody is the body of every answer to an error.
type errorBody struct {
	Message   string        `json:"message"`
	Code      string        `json:"code"`
	RequestID string        `json:"requestId"`
	Skipped   []skippedItem `json:"skipped,omitempty"`
	Refused   []fileNote    `json:"refused,omitempty"`
}

// fail answers a request with an error. Its cause goes to the log only.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	drain(w, r)
	f := failureOf(err)
	a.logFailure(r.Context(), f, err, requestID(w))

	header := w.Header()
	header.Set("Cache-Control", "no-store") // whatever was to be answered instead
	switch f.status {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `ApiKey header="`+strings.ToLower(headerOf(f.err))+`"`)
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	case http.StatusTooManyRequests:
		if guesses, ok := errors.AsType[*tooManyGuesses](err); ok {
			header.Set("Retry-After", strconv.Itoa(int(math.Ceil(guesses.wait.Seconds()))))
		}
	}
	body := errorBody{Message: f.message, Code: f.code, RequestID: requestID(w)}
	if batch, ok := errors.AsType[*exports.BatchError](err); ok {
		body.Skipped = skippedItems(batch.Skipped)
		a.logSkipped(r.Context(), batch.Skipped, requestID(w))
	}
	if rejected, ok := errors.AsType[*bundle.RejectedError](err); ok {
		body.Refused = fileNotes(rejected.Files)
	}
	encode(w, f.status, body)
}

// drain reads what is left of a small body that nobody wants, so that the
// connection can be used again, and gives up the connection otherwise. Left to
// itself the server would wait for the body, with the answer in hand or behind
// it.
func drain(w http.ResponseWriter, r *http.Request) {
	const most, patience = 256 << 10, time.Second
	if r.ContentLength == 0 || r.ProtoMajor > 1 {
		return
	}
	control := http.NewResponseController(w)
	bounded := control.SetReadDeadline(time.Now().Add(patience)) == nil
	if bounded && r.ContentLength <= most && r.Header.Get("Expect") == "" {
		if _, err := io.CopyN(io.Discard, r.Body, most); err == io.EOF {
			control.SetReadDeadline(time.Time{})
			return
		}
	}
	w.Header().Set("Connection", "close")
}

// headerOf names the header that an unauthorized request lacks.
func headerOf(err error) string {
	if err == errAdminKeyMissing || err == errAdminKeyWrong {
		return headerAdminKey
	}
	return headerAPIKey
}

// logFailure logs what is not the client's doing.
func (a *api) logFailure(ctx context.Context, f failure, err error, id string) {
	level := slog.LevelDebug
	switch {
	case err == errPanic: // it has been logged with its stack
		return
	case ctx.Err() != nil: // the client has left
	case f.status == http.StatusInternalServerError:
		level = slog.LevelError
	case f.status > http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	a.report(ctx, level, "request failed", "status", f.status, "error", err, "requestId", id)
}

// report writes to the log. No answer may depend on it: if it panics, the
// default one is told.
func (a *api) report(ctx context.Context, level slog.Level, message string, args ...any) {
	defer func() {
		if reason := recover(); reason != nil {
			defer func() { recover() }() // it may be the very same
			slog.Default().ErrorContext(ctx, "panic in Options.Logger", "panic", reason)
		}
	}()
	a.log.Log(ctx, level, message, args...)
}
