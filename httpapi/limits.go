package httpapi

import (
	"cmp"
	"time"

	"example.com/canvasback/symbols/bundle"
)

// Limits are what a request, a client and all of them may use. A client is a client
// key, or a client IP without one. Zero fields have the stated defaults.
type Limits struct {
	// Body is the maximum size of a request body in bytes, 1 MiB by default, and eight
	// times as much for an import of keys. Symbol, 50 MiB, is for creating or updating a
	// symbol; Batch, 16 MiB, for downloads of several files; Import, 64 MiB, for the zips
	// of imports.
	Body   int64
	Symbol int64
	Batch  int64
	Import int64

	// ImportContents limits what is in the zip of an import, which is in memory
	// until it is stored. By default its Symbol is that of Limits, and its Total half
	// of Memory, at most 256 MiB.
	ImportContents bundle.Limits

	// Memory is how many bytes requests may take together, 256 MiB by default: for
	// bodies and their values, imports, and responses while slow clients receive
	// them. Requests of up to 64 KiB may use all of it, those of up to 1/128 of it
	// seven eighths, and larger ones three quarters, so that none waits for larger
	// ones. A client may have half of it, and an eighth more for requests of up to 64 KiB, or
	// one request that needs more.
	//
	// A body that waits for memory longer than IdleTimeout, and a response that waits
	// longer than StoreTimeout, gets 503. One request at a time may exceed Memory, so
	// that those that wait for each other end.
	Memory int64

	// ListCache is the memory in bytes for the cache of encoded lists and records,
	// compressed bodies and images; 64 MiB by default, no cache if negative. Each
	// request compares the cached version with the store. A quarter of it, at
	// least 4 MiB, is how much of a list is read before the response begins. Lists of
	// up to two thirds of it are cached together, one of up to seven eighths alone.
	ListCache int64

	// BodyRate is the rate in bytes per second that a request body must have in
	// each ten seconds; 1 KiB by default, no minimum if negative.
	BodyRate int64

	// Downloads is how many downloads a client may have at a time; 64 by default,
	// unlimited if negative. Others get 429. A download by a link counts for the key
	// of the link. Each page token may have as many as a client, and all tokens of a key
	// 16 times as many. Each download has the same share of the process, so a client with
	// 63 of them has 63 times that of a client with one.
	Downloads int

	// ChangeStreams is how many streams of changes a client may have open, 1,000 by
	// default, and AllChangeStreams how many all may have, 10,000; no limit if
	// negative. Others get 429. Each takes 16 KiB of Memory.
	ChangeStreams    int
	AllChangeStreams int

	// WrongKeys limits how many wrong keys a client IP may send.
	WrongKeys RateLimit

	// StoreTimeout is how long a request may wait for a store before it fails with
	// 503, 5 seconds by default. Each 16 MiB of an import extend it by as much, with 1 KiB
	// for each symbol beside its data and meta. Deletions of folders, changes of several
	// symbols, restores, and the revocation of raw keys have ten times as much. Key checks
	// have the timeout of [keys.Options] instead.
	StoreTimeout time.Duration

	// IdleTimeout is how long the client of a download may make no progress, a
	// minute by default. It replaces the server's WriteTimeout, so that a download
	// may last as long as data flows. See [ConnContext] for what counts as progress. Over
	// HTTP/2, a client that reads nothing from its connection loses it after the
	// WriteByteTimeout of the server, too: see [ConfigureServer].
	IdleTimeout time.Duration
}

// RateLimit limits how many wrong keys a client IP may send: so many client keys, and so
// many admin keys. Beyond the limit a wrong key gets 429 with Retry-After and not 401.
// Accepted client keys always pass; on admin routes the limit holds for right keys too,
// which may be much shorter than client keys. Only an admin key in clear of at least 16
// characters passes, if the same IP has used it within the last hour. A client key sent as
// x-admin-key counts as wrong, and so does an admin key sent as x-api-key; a missing key
// does not. The limit of an IPv6 address holds for its /64 network.
//
// The limit slows brute-force attacks and makes them visible. Only the length of
// the keys makes them infeasible.
type RateLimit struct {
	// Burst is how many wrong keys a client IP may send at once; 1000 by default,
	// unlimited if negative.
	Burst int

	// Interval is the time after which one more is allowed, 100 ms by default.
	Interval time.Duration
}

// withDefaults returns the limits with zero and invalid values replaced.
func (l Limits) withDefaults() Limits {
	l.Body = cmp.Or(max(l.Body, 0), 1<<20)
	l.Symbol = cmp.Or(max(l.Symbol, 0), 50<<20)
	l.Batch = cmp.Or(max(l.Batch, 0), 16<<20)
	l.Import = cmp.Or(max(l.Import, 0), 64<<20)
	l.Memory = cmp.Or(max(l.Memory, 0), 256<<20)
	l.ImportContents.Total = cmp.Or(max(l.ImportContents.Total, 0), min(256<<20, l.Memory/2))
	l.ImportContents.Symbol = cmp.Or(max(l.ImportContents.Symbol, 0), l.Symbol)
	l.ListCache = cmp.Or(l.ListCache, 64<<20)
	l.BodyRate = cmp.Or(l.BodyRate, 1<<10)
	l.Downloads = cmp.Or(l.Downloads, 64)
	l.ChangeStreams = cmp.Or(l.ChangeStreams, 1000)
	l.AllChangeStreams = cmp.Or(l.AllChangeStreams, 10_000)
	l.WrongKeys.Burst = cmp.Or(l.WrongKeys.Burst, 1000)
	l.WrongKeys.Interval = min(cmp.Or(max(l.WrongKeys.Interval, 0), 100*time.Millisecond), 1<<62) // at most the tolerance of package auth
	l.StoreTimeout = min(cmp.Or(max(l.StoreTimeout, 0), 5*time.Second), 24*time.Hour)             // multiples do not overflow
	l.IdleTimeout = cmp.Or(max(l.IdleTimeout, 0), time.Minute)
	return l
}
