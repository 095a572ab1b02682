package exports

import "time"

// Export is the registration of an exported file. Times are UTC and cut to the
// millisecond.
type Export struct {
	ID          int64  // positive, counted from 1, never used again
	SourceURL   string // what it is looked up by; one export for each
	ExportedURL string // where the file lies
	FileName    string // as registered; empty if none was
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Skipped is an item of a batch that is not in the answer, and why.
type Skipped struct {
	SourceURL string
	Reason    string // for a client
	Err       error  // for the log
}
