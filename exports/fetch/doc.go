// Package fetch opens exported files over HTTP. It is the only package of this
// library that sends requests to other servers.
//
// # URL policy
//
// Exported URLs are untrusted input, and so are redirects. Both must satisfy the
// same rules:
//
//   - The scheme is http or https. A redirect from https to http is rejected.
//   - The URL has no user info, control character or backslash. The host is a
//     DNS name or an IP address in standard form.
//   - The port is one of [Options.Ports].
//   - The IP address of the connection is public.
//
// [Options.AllowedHosts] lists exceptions to the last two rules. An exception
// applies to the host in the URL only, not to other names of the same machine.
//
// A request to an http.Server opens no connection to that server, whatever is allowed:
// the port that it arrived at is rejected at every IP address of this machine. It may use
// an idle connection of a request that arrived at another port. Other listeners, such as one
// for metrics, are rejected only as IP addresses that are not public, so do not allow
// their hosts.
//
// # SSRF guard
//
// The SSRF guard enforces the last rule. It checks every IP address after DNS
// resolution, immediately before the connection, so DNS rebinding cannot bypass
// it. The package ignores the proxy settings of the environment, because the SSRF
// guard would see only the IP address of the proxy.
//
// The SSRF guard cannot detect a public IP address inside the application's own
// network, or a provider's own IPv6 prefix that translates to IPv4. It rejects
// the well-known NAT64 prefix 64:ff9b::/96, so networks that reach IPv4 through
// NAT64 alone cannot fetch from IPv4 origins.
//
// An exported URL can be a download link of the same server. Each request therefore has
// the header CDN-Loop (RFC 8586), and no server of this library delivers a link to it.
//
// # Retry
//
// Only a 200 response, or a 206 to a Range, is a file. Its Content-Encoding is absent,
// identity or aws-chunked. Transient failures are retried with exponential backoff, full
// jitter and Retry-After, at most 5 seconds each: connection errors, connections lost
// before the first byte, and status 408, 429 and 5xx. A timeout between connect and first
// byte is not retried. Status 404 and 410 are an [exports.ErrGone].
//
// Requests use HTTP/1.1. Over HTTP/2, an origin could delay the requests to all others,
// because net/http waits for some frames of a connection under locks that they share.
//
// # Ranges and resume
//
// The Validator of a file is its strong ETag, or else its Last-Modified if that is
// at least one second before the Date of the response (RFC 9110, section 8.8.2.2).
// An interrupted or stalled file with a Validator is resumed by a Range request;
// [Opener.OpenRange] sends the same request. Origins may ignore If-Range, so each
// response must repeat the validator and the size of the file. If it does not, the
// file has changed.
//
// The origin may return less than the range. It may also return the complete file:
// the bytes before the range are then read and discarded. If it returns 416, or
// 206 without the size of the file, one more request asks for the complete file.
//
// Truncation cannot be detected in a response that has neither Content-Length
// nor chunked encoding: the file ends where the connection is closed.
package fetch
