package exports

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"
)

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
