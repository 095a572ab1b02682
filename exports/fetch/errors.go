package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"example.com/canvasback/exports"
)

var (
	errIdleTimeout = fmt.Errorf("idle timeout: %w", os.ErrDeadlineExceeded)
	errTooLarge    = errors.New("file exceeds the size limit")
	errNoRange     = errors.New("no response to a range request")
)

// wrapError wraps err in an error that [exports.Opener] documents.
func wrapError(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
		if cause := context.Cause(ctx); cause != err {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	if cause := causeOf(err); cause.Cause != "" {
		err = &cause
	}
	switch {
	case errors.Is(err, exports.ErrForbidden), errors.Is(err, exports.ErrChanged):
	case errors.Is(err, exports.ErrTimeout), isTimeout(err):
		err = fmt.Errorf("%w: %w", exports.ErrTimeout, err)
	default:
		err = fmt.Errorf("%w: %w", exports.ErrFailed, err)
	}
	return fmt.Errorf("fetch: %s: %w", redact(u), err)
}

// causeOf returns what administrators may know about an error. Its Cause is empty if
// that is nothing.
func causeOf(err error) exports.CauseError {
	cause := exports.CauseError{Err: err}
	status, isStatus := errors.AsType[*statusError](err)
	_, isDNS := errors.AsType[*net.DNSError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, isAlert := errors.AsType[tls.AlertError](err)
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isStatus:
		cause.Code, cause.Cause = status.code, status.cause()
	case isDNS:
		cause.Cause = "the host name cannot be resolved"
	case isCertificate:
		cause.Cause = "the TLS certificate is not accepted"
	case isAlert, isRecord:
		cause.Cause = "the TLS handshake fails"
	case errors.Is(err, syscall.ECONNREFUSED):
		cause.Cause = "the connection is refused"
	case errors.Is(err, exports.ErrForbidden):
		cause.Cause = "the URL policy blocks it"
	}
	return cause
}

// cause describes a response to administrators. Codes are those of S3.
func (e *statusError) cause() string {
	text := ""
	switch e.code {
	case "":
		return fmt.Sprintf("the server responds with status %d", e.status)
	case "SignatureDoesNotMatch", "InvalidAccessKeyId", "XAdminUserNotFound", "ExpiredToken", "InvalidToken":
		text = "the object store rejects the credentials"
	case "AccessDenied":
		text = "the credentials do not permit it"
	case "NoSuchBucket":
		text = "there is no such bucket"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		text = "the region or the endpoint is wrong"
	default:
		text = fmt.Sprintf("the object store responds with status %d", e.status)
	}
	return text + " (" + e.code + ")"
}

// isTimeout reports whether err is a timeout. The resolver of the operating system
// does not distinguish it from other temporary failures; Go's, which names the
// server, does.
func isTimeout(err error) bool {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.Server == "" && e.IsTemporary && !e.IsNotFound {
		return true
	}
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// statusError is a response that is not a file.
type statusError struct {
	host       string
	status     int
	code       string        // of an object store, such as AccessDenied
	retryAfter time.Duration // zero if the origin sent none
}

func newStatusError(response *http.Response) *statusError {
	e := &statusError{host: response.Request.URL.Host, status: response.StatusCode}
	text := response.Header.Get("Retry-After") // RFC 9110, section 10.2.3
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		e.retryAfter = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		e.retryAfter = time.Until(date)
	}
	return e
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("unexpected status %d %s from %s", e.status, http.StatusText(e.status), e.host)
	if e.code != "" {
		text += ": " + e.code
	}
	return text
}

// Is makes a response of a missing file an [exports.ErrGone]. An object store also
// responds with 404 if a bucket or an access key is unknown.
func (e *statusError) Is(target error) bool {
	isMissing := e.status == http.StatusNotFound || e.status == http.StatusGone
	return target == exports.ErrGone && isMissing && slices.Contains([]string{"", "NoSuchKey", "NoSuchVersion", "BlobNotFound"}, e.code)
}

func isTransient(err error) bool {
	if errors.Is(err, exports.ErrForbidden) {
		return false
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status == http.StatusRequestTimeout || e.status == http.StatusTooManyRequests || e.status >= 500
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return !e.IsNotFound
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Op == "dial" || e.Op == "read" || e.Op == "write" // but not a TLS alert
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
