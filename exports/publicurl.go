package exports

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/prefetch"
)

// PrivateURL returns a URL of a private file for a client, see [PrivateOpener], such as that of
// a link of [Service.ShareLink]. It must be safe for concurrent use.
type PrivateURL func(ctx context.Context, item BatchItem) (string, error)

// PublicURL returns the URL from which a client can download the export of an item: that
// of a [Presigner], a private one if the file is private, or else the exported URL itself.
// The error is that of the item or of private, or wraps [ErrForbidden], [ErrTimeout] or
// [ErrFailed].
func (s *Service) PublicURL(ctx context.Context, item BatchItem, private PrivateURL) (string, error) {
	if item.Err != nil {
		return "", item.Err
	}
	export := item.Export
	u, opener, err := s.locate(export.ExportedURL)
	if err != nil {
		if u != nil && isWeb(u) {
			return export.ExportedURL, nil
		}
		return "", err
	}
	if !isPrivate(opener, u) {
		return export.ExportedURL, nil
	}
	presigner, ok := opener.(Presigner)
	if !ok {
		return private(ctx, item)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.OpenTimeout, ErrTimeout)
	defer cancel()
	public, err := presigner.PublicURL(ctx, u, filename.Clean(item.Named().FileName))
	return public, openError(err, context.Cause(ctx))
}

// PublicURLs returns the PublicURL of each item that has one, and an element for
// each other item. If there are no URLs, the error is a [BatchError].
func (s *Service) PublicURLs(ctx context.Context, items []BatchItem, private PrivateURL) (urls []string, skipped []Skipped, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.OpenTimeout, ErrTimeout)
	defer cancel()
	found := make([]string, len(items))
	errs := prefetch.Parallel(s.prefetch, make([]string, len(items)), func(i int) (err error) {
		found[i], err = s.PublicURL(ctx, items[i], private)
		return err
	})
	for i, err := range errs {
		switch {
		case errors.Is(err, ErrUnavailable):
			return nil, nil, err
		case errors.Is(err, prefetch.ErrUnresponsive):
			err = openError(err, nil)
			fallthrough
		case err != nil:
			skipped = append(skipped, newSkipped(items[i].SourceURL, err))
		default:
			urls = append(urls, found[i])
		}
	}
	if len(urls) == 0 {
		return nil, nil, newBatchError(skipped)
	}
	return urls, skipped, nil
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
