package exports

import (
	"errors"
	"time"
)

// Export is the registration of an exported file. Times are UTC, truncated to
// the millisecond.
type Export struct {
	ID           int64  // positive, ascending, never reused
	SourceURL    string // lookup key, unique
	ExportedURL  string // of the exported file
	FileName     string // as registered, empty if none
	RegisteredBy string // who registered it last, such as "key 7"; empty if unknown
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Filter selects the exports of a list. The zero value selects all.
type Filter struct {
	Contains string // only exports whose SourceURL contains it, as bytes
}

// Range selects the first records of a list with ids above After. The zero value
// selects all records.
type Range struct {
	After int64 // an id, which need not exist; 0: from the start
	Limit int   // the maximum number of records; 0 or less: no limit
}

// Page is a part of a list of exports, ids ascending.
type Page struct {
	Exports []Export
	More    bool // exports with higher ids follow
}

// BatchItem is a source URL of a batch with its export.
type BatchItem struct {
	SourceURL string
	Export    *Export // nil if none is registered
}

// Skipped is an item that a batch does not deliver.
type Skipped struct {
	SourceURL string
	Reason    string // may be shown to clients
	Err       error  // for the log
}

// newSkipped returns the Skipped element of a source URL that failed with err. Its
// Reason reveals nothing about the server's network: it is the same for a name that
// does not exist and one with a private IP address.
func newSkipped(source string, err error) Skipped {
	reason := "file cannot be fetched"
	switch {
	case errors.Is(err, ErrNotFound):
		reason = "not registered"
	case errors.Is(err, ErrTimeout):
		reason = "file takes too long"
	}
	return Skipped{SourceURL: source, Reason: reason, Err: err}
}
