package exports

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
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

// FoundLink is a link whose plan is not read yet.
type FoundLink struct {
	Tenant   string // that has made the link
	Owner    Digest // as given to CreateLink
	PlanSize int    // in bytes; Load takes a few times as much memory

	service *Service
	stored  StoredLink
}

// FindLink returns the link with a token. The error is [ErrLinkNotFound], or
// matches [ErrUnavailable].
func (s *Service) FindLink(ctx context.Context, token string) (*FoundLink, error) {
	if random, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(random) != tokenBytes || !s.HasLinks() {
		return nil, ErrLinkNotFound
	}
	stored, err := s.links.FindLink(ctx, sha256.Sum256([]byte(token)), false)
	if err != nil {
		return nil, storeError("find link", err)
	}
	if !s.now().Before(stored.ExpiresAt) {
		return nil, ErrLinkNotFound
	}
	return &FoundLink{stored.Tenant, stored.Owner, stored.PlanSize, s, stored}, nil
}

// Load returns the link with its plan. Its errors are those of [Service.FindLink].
func (f *FoundLink) Load(ctx context.Context) (*Link, error) {
	p := f.service.plans.get(f.stored.Digest)
	if p != nil && p.version == f.stored.Version && f.service.now().Sub(p.read) < time.Minute {
		return f.service.newLink(f.stored, p), nil
	}
	stored, err := f.service.links.FindLink(ctx, f.stored.Digest, true)
	if err != nil {
		return nil, storeError("find link", err)
	}
	return f.service.decodeLink(stored)
}

func (s *Service) decodeLink(stored StoredLink) (*Link, error) {
	p, err := decodePlan(stored.Plan)
	if err != nil {
		return nil, err
	}
	return s.newLink(stored, p), nil
}

// newLink returns a link with a plan. If the plan is stored with it, it is cached.
func (s *Service) newLink(stored StoredLink, p *plan) *Link {
	if stored.Plan != nil {
		p.version, p.read = stored.Version, s.now()
		if p.Resumable {
			h := sha256.New() // with the version: a plan that replaces an equal one has another tag
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(stored.Version)))
			h.Write(stored.Plan)
			p.etag = `"` + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18]) + `"`
		}
		s.plans.put(stored.Digest, p, stored.PlanSize)
		stored.Plan = nil
	}
	link := &Link{
		Tenant:    stored.Tenant,
		Owner:     stored.Owner,
		ExpiresAt: stored.ExpiresAt,
		FileName:  p.FileName,
		Type:      p.Type,
		Size:      p.Size,
		ETag:      p.etag,
		Zip:       p.Zip,
		Sources:   p.Sources,
		Skipped:   p.skipped(),
		service:   s,
		stored:    stored,
		plan:      p,
	}
	if modified := time.Unix(p.Entries[0].Modified, 0).UTC(); !p.Zip && p.Resumable && modified.Year() > 1 {
		link.Modified = modified
		link.ModifiedStrong = stored.Version == 1 && s.now().Sub(modified) >= time.Second
	}
	return link
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
