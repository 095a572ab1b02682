// Package fetch opens exported files over HTTP. It is the only part of this
// library that dials out.
//
// # Addresses
//
// An exported address is input, and so is every redirect that an origin
// answers with. One set of rules judges both:
//
//   - the scheme is http or https, and https never leads back to http;
//   - there is no user, no password, no control character, no backslash, and
//     the host is a plain name or an address written in the usual way;
//   - the port is one of [Options.Ports];
//   - the address that is really dialled, after the name has been resolved,
//     is on the public internet. It is judged for each connection that is
//     about to be made, so it does not matter what a name resolved to before.
//
// [Options.AllowedHosts] names exceptions to the last two rules. An exception
// goes with the name in the request and not with the machine behind it:
// another name that resolves to the same machine is refused. The proxy
// settings of the environment are not used; behind a proxy it would be the
// proxy's address that is judged.
//
// What cannot be told from the outside is not refused: a public address of
// the host's own network is public, and so is an IPv6 prefix of a provider
// that translates to IPv4. Where IPv4 is reached through NAT64 alone, its
// prefix 64:ff9b::/96 counts as private.
//
// # Answers
//
// Only a 200 without content coding is a file. What is likely to pass is
// tried again: failing to connect, losing the connection before the first
// byte, and the statuses 408, 429 and 5xx. A file that breaks off later is
// taken up where it broke if the origin gave it a strong entity tag (RFC 9110,
// section 13.1.5); if it came without a length and the origin then answers that
// it ends there, it is complete.
package fetch
