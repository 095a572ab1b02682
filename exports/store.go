package exports

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

// Store stores exports. It enforces no rules: its input is valid and complete. It is
// responsible for identity and unique source URLs, which are compared exactly and
// have up to [MaxURLLength] code points.
//
// Download links need a [LinkStore] as well.
//
// All methods are safe for concurrent use, by several processes if the store is
// shared. When a method returns, its change is durable and visible to every call
// that starts later. Records are values: a store keeps no reference to its input
// and returns no reference to its data. Times are UTC with millisecond
// precision.
//
// Methods return [ErrNotFound] and [ErrNotOwner] as documented.
// Any other error means that the store is unavailable, and that nothing was changed
// unless only the response to a commit was lost. When ctx ends, methods promptly
// return an error.
type Store interface {
	// Put stores an export under a new id, ignoring the id it has. If the
	// source URL already has an export, Put replaces it and keeps its id and
	// CreatedAt, unless the rule is violated. It returns the export as stored and
	// whether it is new. Ids are positive, ascending and never reused, not even
	// after a deletion or a restart.
	Put(ctx context.Context, export Export, rule PutRule) (stored Export, created bool, err error)

	// Get returns the export with the id, or [ErrNotFound].
	Get(ctx context.Context, id int64) (Export, error)

	// List returns a page of the exports that the filter selects. With a Contains,
	// it may read all exports above After.
	List(ctx context.Context, filter Filter, r Range) (Page, error)

	// Find returns the exports of the source URLs that have one, in any
	// order, each once even if its source URL is given more than once.
	Find(ctx context.Context, sources ...string) ([]Export, error)

	// Delete removes the export with the id, or returns [ErrNotFound].
	Delete(ctx context.Context, id int64) error
}

// LinkStore is an optional interface of a [Store], for download links and facts about
// files. What the comment of Store says of methods holds for these too; the sentinel
// is [ErrLinkNotFound].
//
// A type that embeds a Store as an interface does not have the methods of a LinkStore.
// Embed both.
type LinkStore interface {
	// InsertLink stores a link with Version 1 and Served 0; its digest is new.
	// It then deletes up to [PruneStep] links of each kind, oldest first: those
	// that have expired at link.CreatedAt, those of the same owner beyond the
	// newest limits.PerOwner, and those beyond the newest limits.Total. It may
	// count links that have been deleted.
	InsertLink(ctx context.Context, link StoredLink, limits LinkLimits) error

	// FindLink returns the link with the digest, also if it has expired, or
	// [ErrLinkNotFound]. Its Plan is nil if its Version is known, which may be
	// any number.
	FindLink(ctx context.Context, digest Digest, known int64) (StoredLink, error)

	// ReplacePlan replaces the plan of a link and increments its Version, if
	// that is the given one. Otherwise it changes nothing. It returns the link
	// as stored, or [ErrLinkNotFound].
	ReplacePlan(ctx context.Context, digest Digest, version int64, plan []byte) (StoredLink, error)

	// AddServed adds to Served of a link. It ignores a link that does not
	// exist.
	AddServed(ctx context.Context, digest Digest, amount int64) error

	// FindFacts returns the facts about the URLs that have one, in any order.
	// No URL is given twice.
	FindFacts(ctx context.Context, urls ...[sha256.Size]byte) ([]Fact, error)

	// PutFacts stores facts in place of previous ones about the same URLs, except
	// those of a higher Revision. It then deletes up to [PruneStep] facts, those
	// stored longest ago first, beyond the newest limit. It may count facts that
	// have been replaced. It stores all or none. No URL is given twice.
	PutFacts(ctx context.Context, facts []Fact, limit int) error
}

// PutRule is how [Store.Put] replaces an export.
type PutRule struct {
	KeepName bool // the previous FileName stays
	OwnOnly  bool // return [ErrNotOwner] if RegisteredBy differs
}

// Replace returns the export that Put stores in place of a previous one.
func (r PutRule) Replace(previous, export Export) (Export, error) {
	if r.OwnOnly && export.RegisteredBy != previous.RegisteredBy {
		return Export{}, ErrNotOwner
	}
	export.ID, export.CreatedAt = previous.ID, previous.CreatedAt
	if r.KeepName {
		export.FileName = previous.FileName
	}
	return export, nil
}

// PruneStep is how many rows of a kind one call of a [Store] deletes to enforce
// a limit. It exceeds what one call adds, so the excess shrinks.
const PruneStep = 1000

// Digest is a SHA-256 digest. It is printed as a placeholder, because that of a
// link identifies a secret.
type Digest [sha256.Size]byte

// Format implements [fmt.Formatter].
func (d Digest) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[digest]") }

// StoredLink is a download link in a [Store].
type StoredLink struct {
	Digest    Digest // of the token
	Owner     Digest // of the raw key that made the link; zero if none
	Version   int64  // of the plan, from 1
	Served    int64  // in units of the [Service]
	CreatedAt time.Time
	ExpiresAt time.Time
	Plan      []byte // what the link delivers, as the [Service] encodes it
}

// LinkLimits bound the number of links in a [Store]. Both are positive.
type LinkLimits struct {
	PerOwner int
	Total    int
}

// Fact is what is known about the file at a URL. It is true as long as the file
// has the Validator. Texts are valid UTF-8 without NUL.
type Fact struct {
	URL       [sha256.Size]byte // SHA-256 of the exported URL
	Validator string            // not empty
	Size      int64
	Revision  int64     // raised when the content changed and the Validator did not
	CRC32     *uint32   // of the content; nil if unknown
	Type      string    // as in [File]
	Name      string    // as in [File]
	Modified  time.Time // zero if unknown
	SeenAt    time.Time // when the upstream last confirmed the Validator; not zero
	Blocks    []byte    // checksums of parts, as the [Service] encodes them; empty if none
}
