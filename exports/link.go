package exports

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"example.com/canvasback/exports/internal/zipstream"
)

// Link is a download link: one file, or a zip of several, that a client downloads
// without a key. A resumable link delivers any section of its bytes, on any process,
// and the same bytes as long as it has the same ETag.
//
// A Link does not change. Its methods are safe for concurrent use.
type Link struct {
	Token     string // of a new link; otherwise empty
	Owner     Digest // as given to CreateLink
	ExpiresAt time.Time
	FileName  string    // clean
	Type      string    // content type, empty if unknown
	Size      int64     // in bytes, -1 if unknown
	Modified  time.Time // of a single resumable file, truncated to the second; zero if unknown
	ETag      string    // with its quotes; empty unless the link is resumable
	Zip       bool
	Sources   []string  // of its files, also of those it skips; read only
	Skipped   []Skipped // without Err, except in a new link

	// ModifiedStrong reports whether Modified is a strong validator (RFC 9110,
	// section 8.8.2.2): its second is over, and all responses of the link so far
	// were of one file. A later plan may be of another file with an equal Modified.
	ModifiedStrong bool

	service  *Service
	stored   StoredLink // without Plan
	planSize int        // encoded
	plan     *plan
	archive  *zipstream.Archive // nil unless it is a resumable zip
	manifest []byte             // content of manifest.json
}

// Format implements [fmt.Formatter] for all verbs. It prints no state, which
// includes a secret.
func (l *Link) Format(f fmt.State, _ rune) { io.WriteString(f, "exports.Link") }

// tokenBytes is the number of random bytes in a token.
const tokenBytes = 32

// CreateLink makes a link to a zip of the items that [Service.FindBatch] has
// returned. Items whose files are not available are skipped; if there is none, the
// error is a [BatchError]. The owner identifies who may use the link, for the
// caller; it may be zero.
func (s *Service) CreateLink(ctx context.Context, items []BatchItem, owner Digest) (*Link, error) {
	return s.createLink(ctx, items, true, owner)
}

// CreateFileLink makes a link to the file of an export. The error wraps
// [ErrForbidden], [ErrTimeout] or [ErrFailed] if it is not available.
func (s *Service) CreateFileLink(ctx context.Context, export Export, owner Digest) (*Link, error) {
	return s.createLink(ctx, []BatchItem{{SourceURL: export.SourceURL, Export: &export}}, false, owner)
}

func (s *Service) createLink(ctx context.Context, items []BatchItem, zip bool, owner Digest) (*Link, error) {
	if !s.HasLinks() {
		return nil, errors.New("exports: the Store is not a LinkStore")
	}
	p, files, err := s.newPlan(ctx, items, zip, nil)
	if err != nil {
		return nil, err
	}
	encoded, err := p.encode()
	if err != nil {
		return nil, err
	}
	random := make([]byte, tokenBytes)
	rand.Read(random)
	token := base64.RawURLEncoding.EncodeToString(random)
	now := s.now()
	stored := StoredLink{
		Digest:    sha256.Sum256([]byte(token)),
		Owner:     owner,
		Version:   1,
		CreatedAt: now,
		ExpiresAt: now.Add(s.linkLifetime),
		Plan:      encoded,
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := s.links.InsertLink(ctx, stored, s.linkLimits); err != nil {
		return nil, storeError("insert link", err)
	}
	link, err := s.newLink(stored, p)
	if err != nil {
		return nil, err
	}
	link.Token = token
	link.Skipped = nil
	for i, item := range items {
		if files[i].err != nil {
			link.Skipped = append(link.Skipped, newSkipped(item.SourceURL, files[i].err))
		}
	}
	return link, nil
}

// FindLink returns the link with a token. The error is [ErrLinkNotFound], or
// matches [ErrUnavailable].
func (s *Service) FindLink(ctx context.Context, token string) (*Link, error) {
	if random, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(random) != tokenBytes || !s.HasLinks() {
		return nil, ErrLinkNotFound
	}
	digest := Digest(sha256.Sum256([]byte(token)))
	cached := s.plans.get(digest)
	known := int64(0)
	if cached != nil {
		known = cached.stored.Version
	}
	stored, err := s.links.FindLink(ctx, digest, known)
	switch {
	case err == ErrLinkNotFound:
		return nil, err
	case err != nil:
		return nil, storeError("find link", err)
	case !s.now().Before(stored.ExpiresAt):
		return nil, ErrLinkNotFound
	case cached != nil && stored.Version == known:
		return cached.with(stored), nil
	}
	// Many requests may wait for a large plan.
	result, err, _ := s.decodings.Do(fmt.Sprintf("%x %d", digest[:], stored.Version), func() (any, error) {
		return s.decodeLink(stored)
	})
	if err != nil {
		return nil, err
	}
	return result.(*Link).with(stored), nil
}

// with returns the link with the same plan and what else is stored now.
func (l *Link) with(stored StoredLink) *Link {
	link := *l
	link.stored = stored
	link.stored.Plan = nil
	link.ModifiedStrong = stored.Version == 1 && !link.Modified.IsZero() && l.service.now().Sub(link.Modified) >= time.Second
	return &link
}

// decodeLink returns a stored link.
func (s *Service) decodeLink(stored StoredLink) (*Link, error) {
	p, err := decodePlan(stored.Plan)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLinkNotFound, err)
	}
	return s.newLink(stored, p)
}

// newLink returns a link with a plan, and caches it.
func (s *Service) newLink(stored StoredLink, p *plan) (*Link, error) {
	link := &Link{
		Owner:     stored.Owner,
		ExpiresAt: stored.ExpiresAt,
		FileName:  p.FileName,
		Type:      p.Type,
		Size:      p.Size,
		Zip:       p.Zip,
		Sources:   p.Sources,
		Skipped:   p.skipped(),
		service:   s,
		stored:    stored,
		planSize:  len(stored.Plan),
		plan:      p,
	}
	if modified := time.Unix(p.Entries[0].Modified, 0).UTC(); !p.Zip && p.Resumable && modified.Year() > 1 {
		link.Modified = modified
	}
	if p.Resumable {
		link.ETag = planETag(stored.Plan, stored.Version)
		if p.Zip {
			var err error
			if link.archive, link.manifest, err = p.archive(); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrLinkNotFound, err)
			}
		}
	}
	link.stored.Plan = nil
	s.plans.put(link)
	return link, nil
}

// Resumable reports whether the link delivers ranges.
func (l *Link) Resumable() bool { return l.plan.Resumable }
