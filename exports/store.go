package exports

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/canvasback/exports/internal/filefacts"
)

// Store stores exports. It enforces no rules: its input is valid and complete. It is
// responsible for identity and unique source URLs, which are compared exactly and
// have up to [MaxURLLength] code points. They do not begin with a space, and are
// unique for each tenant.
//
// Download links need a [LinkStore] as well.
//
// All methods are safe for concurrent use, by several processes if the store is shared.
// When a method returns, its change is durable and visible to every call that starts
// later. Records are values: a store keeps no reference to its input and returns no
// reference to its data. Times are UTC with millisecond precision.
//
// Methods return the errors that their comments name; those that write do so only if what
// they have read is durable. Any other error means that the store is unavailable, and that
// nothing was changed unless only the response to a commit was lost. When ctx ends,
// methods promptly return an error.
type Store interface {
	// Put stores an export under a new id, ignoring the id it has. If the
	// source URL already has an export of the tenant, Put replaces it and keeps its id and
	// CreatedAt, unless the rule is violated or IfAbsent. It returns the export as stored and
	// whether it is new. Ids are positive, ascending and never reused, not even
	// after a deletion or a restart.
	Put(ctx context.Context, export Export, rule PutRule) (stored Export, created bool, err error)

	// Get returns the export with the id, or [ErrNotFound].
	Get(ctx context.Context, id int64) (Export, error)

	// List returns a page of the exports that the filter selects. With a Contains,
	// it may read all exports above After.
	List(ctx context.Context, filter Filter, r Range) (Page, error)

	// Find returns the exports of a tenant's source URLs that have one, in any
	// order, each once even if its source URL is given more than once.
	Find(ctx context.Context, tenant string, sources ...string) ([]Export, error)

	// Delete removes the export with the id, or returns [ErrNotFound].
	Delete(ctx context.Context, id int64) error

	// AssignTenant gives the exports of a tenant, and its links, to another. It
	// returns [ErrTaken], and changes nothing, if both have an export of one source.
	AssignTenant(ctx context.Context, from, to string) error
}

// LinkStore is an optional interface of a [Store], for download links and facts about
// files. What the comment of Store says of methods holds for these too; the sentinels
// are [ErrLinkNotFound] and [ErrTooManyLinks].
//
// A type that embeds a Store as an interface does not have the methods of a LinkStore.
// Embed both.
type LinkStore interface {
	// InsertLink deletes up to [PruneStep] links that have expired at
	// link.CreatedAt, and as many of the same owner that are used up. It then
	// stores a link with Version 1 and Served 0; its digest is new. Instead it
	// changes nothing and returns [ErrTooManyLinks] if the owner, or the client of the owner, would
	// have more than the limits. Concurrent calls may exceed them.
	InsertLink(ctx context.Context, link StoredLink, limits LinkLimits) error

	// FindLink returns the link with the digest, also if it has expired, or
	// [ErrLinkNotFound]. Its Plan is nil, with PlanSize set, unless withPlan.
	FindLink(ctx context.Context, digest Digest, withPlan bool) (StoredLink, error)

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
	// have been replaced or rolled back. It stores all or none. No URL is given twice.
	PutFacts(ctx context.Context, facts []Fact, limit int) error
}

// PutRule is how [Store.Put] replaces an export.
type PutRule struct {
	KeepName bool // the previous FileName stays
	OwnOnly  bool // return [ErrNotOwner] if RegisteredBy differs
	IfAbsent bool // change nothing, and return the previous export, whatever the others say
}

// Replace returns the export that Put stores in place of a previous one.
func (r PutRule) Replace(previous, export Export) (Export, error) {
	if r.IfAbsent {
		return previous, nil
	}
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

// storeTimeout limits calls of a store that outlive their request.
const storeTimeout = 5 * time.Second

// Digest is a SHA-256 digest. It is printed as a placeholder, because that of a
// link identifies a secret.
type Digest [sha256.Size]byte

// Format implements [fmt.Formatter].
func (d Digest) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[digest]") }

// StoredLink is a download link in a [Store].
type StoredLink struct {
	Digest    Digest // of the token
	Tenant    string
	Owner     Digest // of the raw key that made the link; zero if none
	Client    Digest // of the owner's client that made it
	Version   int64  // of the plan, from 1
	Served    int64  // in units of the [Service]
	CreatedAt time.Time
	ExpiresAt time.Time
	Plan      []byte // what the link delivers, as the [Service] encodes it
	PlanSize  int    // length of Plan
}

// LinkLimits bound the links in a [Store].
type LinkLimits struct {
	PerOwner, PerClient LinkLimit
	Served              int64 // with which a link is used up
}

// LinkLimit is how many links there may be, and how many bytes their plans may have.
type LinkLimit struct {
	Links int
	Bytes int64
}

// Fact is what is known about the content of the file at a URL. It is true as long as
// the file has the Validator, which is valid UTF-8 without NUL.
type Fact struct {
	URL       [sha256.Size]byte // SHA-256 of the exported URL
	Validator string            // not empty
	Size      int64
	Revision  int64   // raised when the content changed and the Validator did not
	CRC32     *uint32 // of the content; nil if unknown
	Blocks    []byte  // checksums of parts, as the [Service] encodes them; empty if none
}

// factStore is a [LinkStore] for package filefacts. Without one it stores nothing.
type factStore struct{ links LinkStore }

func (s factStore) FindFacts(ctx context.Context, urls ...filefacts.Key) ([]filefacts.Record, error) {
	if s.links == nil {
		return nil, nil
	}
	list, err := s.links.FindFacts(ctx, urls...)
	records := make([]filefacts.Record, len(list))
	for i, fact := range list {
		records[i] = filefacts.Record(fact)
	}
	return records, err
}

func (s factStore) PutFacts(ctx context.Context, records []filefacts.Record, limit int) error {
	if s.links == nil {
		return nil
	}
	list := make([]Fact, len(records))
	for i, record := range records {
		list[i] = Fact(record)
	}
	return s.links.PutFacts(ctx, list, limit)
}

func factKey(exportedURL string) filefacts.Key { return sha256.Sum256([]byte(exportedURL)) }

// fact returns what is known about a file that its upstream has just described, or nil
// if nothing can be known: it has no Validator, or one that stores cannot hold.
func (s *Service) fact(exportedURL string, file *File) *filefacts.Fact {
	if len(file.Validator) > 1<<10 || !utf8.ValidString(file.Validator) || strings.ContainsRune(file.Validator, 0) {
		return nil
	}
	return s.facts.Confirm(factKey(exportedURL), file.Validator, file.Size)
}
