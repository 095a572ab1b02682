package exports

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"
)

// Link is a download link: one file, or a zip of several, that a client downloads
// without a key. A resumable link delivers any section of its bytes, on any process,
// and the same bytes as long as it has the same ETag.
//
// A Link does not change. Its methods are safe for concurrent use.
type Link struct {
	Token     string `json:"-"` // of a link of CreateLink or ShareLink; otherwise empty
	Tenant    string // that has made the link
	Owner     Digest // as given to CreateLink
	ExpiresAt time.Time
	FileName  string    // clean
	Type      string    // content type, empty if unknown
	Size      int64     // in bytes, -1 if unknown
	Modified  time.Time // of a single resumable file, truncated to the second; zero if unknown
	ETag      string    // with its quotes; empty unless the link is resumable
	Zip       bool
	Sources   []string  // of its files, also of those it skips; read only
	Skipped   []Skipped // the first 100, without Err; all with Err in a new link

	// NotResumable are the items of a new link that make it not resumable.
	NotResumable []Skipped

	// ModifiedStrong reports whether Modified is a strong validator (RFC 9110,
	// section 8.8.2.2): its second is over, and all responses of the link so far
	// were of one file. A later plan may be of another file with an equal Modified.
	ModifiedStrong bool

	service *Service   // of any tenant
	stored  StoredLink // without Plan
	plan    *plan
}

// Format implements [fmt.Formatter] for all verbs. It prints no state, which
// includes a secret.
func (Link) Format(f fmt.State, _ rune) { io.WriteString(f, "exports.Link") }

// Resumable reports whether the link delivers ranges.
func (l *Link) Resumable() bool { return l.plan.Resumable }

const tokenBytes = 32 // of a token, random

// LinkRequest is the input of [Service.CreateLink].
type LinkRequest struct {
	Items  []BatchItem // that FindBatch or FindItem has returned
	Single bool        // the link is to the file of the only item, not to a zip

	Owner  Digest // identifies who may use the link, for the caller; it may be zero
	Client string // of the owner, such as a client IP, for the limits
}

// CreateLink makes a link. Items whose files are not available are skipped; if there is
// none, the error is a [BatchError], or that of [Service.Open] for a single file. It is
// [ErrTooLarge] if there is too much to store, and [ErrTooManyLinks] beyond the limits.
func (s *Service) CreateLink(ctx context.Context, r LinkRequest) (*Link, error) {
	if !s.HasLinks() {
		return nil, errors.New("exports: the Store is not a LinkStore")
	}
	p, files, err := s.newPlan(ctx, r.Items, !r.Single, nil)
	if err != nil {
		return nil, err
	}
	encoded := p.encode()
	if len(encoded) > maxPlanSize {
		return nil, ErrTooLarge
	}
	random := make([]byte, tokenBytes)
	rand.Read(random)
	token := base64.RawURLEncoding.EncodeToString(random)
	now := s.now()
	stored := StoredLink{
		Digest:    sha256.Sum256([]byte(token)),
		Tenant:    s.tenant,
		Owner:     r.Owner,
		Client:    sha256.Sum256([]byte(r.Client)),
		Version:   1,
		CreatedAt: now,
		ExpiresAt: now.Add(s.options.LinkLifetime),
		Plan:      encoded,
		PlanSize:  len(encoded),
	}
	if err := s.insertLink(ctx, stored); err != nil {
		return nil, err
	}
	link := s.newLink(stored, p)
	link.Token = token
	link.Skipped = nil
	for i, file := range files {
		source := r.Items[i].SourceURL
		switch {
		case file.err != nil:
			link.Skipped = append(link.Skipped, newSkipped(source, file.err))
		case file.fact == nil:
			reason := "the file has no strong validator"
			if file.file.Size < 0 {
				reason = "the size of the file is unknown"
			}
			link.NotResumable = append(link.NotResumable, Skipped{SourceURL: source, Reason: reason})
		}
	}
	return link, nil
}

// insertLink inserts a link. Those that are used up end only if there are too many, so
// that their clients learn why they get no more.
func (s *Service) insertLink(ctx context.Context, link StoredLink) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	all := LinkLimit{s.options.LinksPerKey, s.options.LinkBytesPerKey}
	limits := LinkLimits{all, LinkLimit{max(all.Links/10, 1), max(all.Bytes/10, 1)}, math.MaxInt64}
	err := s.links.InsertLink(ctx, link, limits)
	if errors.Is(err, ErrTooManyLinks) {
		limits.Served = s.usages.served * usageUnit
		err = s.links.InsertLink(ctx, link, limits)
	}
	return storeError("insert link", err)
}

// sharedLink is a link that [Service.ShareLink] has made, until half of its lifetime is
// over.
type sharedLink struct {
	token string
	until time.Time
}

// ShareLink returns a link to the file of an item with an export, which must be available
// now. The links that a process makes for one owner, file and file name are usually the
// same until half of their lifetime is over. The client is as in [LinkRequest].
func (s *Service) ShareLink(ctx context.Context, item BatchItem, owner Digest, client string) (*Link, error) {
	export := *item.Export
	if !s.HasLinks() {
		return nil, fmt.Errorf("%w: a private file needs a link, but the Store is not a LinkStore", ErrFailed)
	}
	if _, err := s.stat(ctx, export); err != nil {
		return nil, err
	}
	source := export.SourceURL
	if export.ID == 0 { // it is resolved again, by the source of the item
		source = strings.TrimSpace(item.SourceURL)
	}
	key := Digest(sha256.Sum256(fmt.Appendf(nil, "%q %x %q %q %q", s.tenant, owner[:], source, export.ExportedURL, item.Named().FileName)))
	item.Export = &export
	request := LinkRequest{Items: []BatchItem{item}, Single: true, Owner: owner, Client: client}
	return share(ctx, s, string(key[:])+client, func(ctx context.Context) (*Link, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, s.options.OpenTimeout, ErrTimeout)
		defer cancel()
		link, err := s.findUnused(ctx, s.shared.get(key), export.ExportedURL)
		if !errors.Is(err, ErrLinkNotFound) {
			return link, err
		}
		if link, err = s.CreateLink(ctx, request); err == nil {
			s.shared.put(key, sharedLink{link.Token, s.now().Add(s.options.LinkLifetime / 2)}, 1)
		}
		return link, err
	})
}

// findUnused returns a shared link, or [ErrLinkNotFound] if it cannot be used again or is
// to another file now.
func (s *Service) findUnused(ctx context.Context, known sharedLink, exportedURL string) (*Link, error) {
	if !s.now().Before(known.until) {
		return nil, ErrLinkNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	found, err := s.FindLink(ctx, known.token)
	if err != nil {
		return nil, err
	}
	if found.Tenant != s.tenant || found.stored.Served >= s.usages.served*usageUnit {
		return nil, ErrLinkNotFound
	}
	link, err := found.Load(ctx)
	if err != nil {
		return nil, err
	}
	if link.plan.Entries[0].URL != exportedURL {
		return nil, ErrLinkNotFound
	}
	link.Token = known.token
	return link, nil
}

// cache remembers values by digest. It is safe for concurrent use.
type cache[V any] struct {
	limit int // of the costs of all values

	mu     sync.Mutex
	values map[Digest]V
	cost   int // of the values that were added
}

func newCache[V any](limit int) *cache[V] { return &cache[V]{limit: limit, values: make(map[Digest]V)} }

func (c *cache[V]) get(key Digest) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[key]
}

// put adds a value in place of another. It evicts all others if they cost too much.
func (c *cache[V]) put(key Digest, value V, cost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cost += cost; c.cost > c.limit {
		clear(c.values)
		c.cost = cost
	}
	c.values[key] = value
}
