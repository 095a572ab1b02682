package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/filename"
	"example.com/canvasback/httpapi/internal/auth"
	"example.com/canvasback/httpapi/internal/linkserve"
	"example.com/canvasback/keys"
)

type createLinkRequest struct {
	SourceFileURL optional[string]      `json:"sourceFileUrl"`
	FileName      string                `json:"fileName"`
	Items         optional[exportItems] `json:"items"`
}

type linkResponse struct {
	Success   bool          `json:"success"`
	URL       string        `json:"url"`
	FileName  string        `json:"fileName"`
	Size      *int64        `json:"size"`
	Resumable bool          `json:"resumable"`
	ETag      *string       `json:"etag"`
	ExpiresAt string        `json:"expiresAt"`
	Skipped   []skippedItem `json:"skipped"`

	// NotResumable are the items that make the link not resumable.
	NotResumable []skippedItem `json:"notResumable"`
}

func newLinkResponse(link *exports.Link) linkResponse {
	return linkResponse{
		Success:   true,
		URL:       linkPath(link),
		FileName:  link.FileName,
		Size:      orNull(link.Size, link.Size >= 0),
		Resumable: link.Resumable(),
		ETag:      orNull(link.ETag, link.Resumable()),
		ExpiresAt: formatTime(link.ExpiresAt),
		Skipped:   skippedItems(link.Skipped),

		NotResumable: skippedItems(link.NotResumable),
	}
}

func (e exportEndpoints) createLink(c *call) error {
	in := createLinkRequest{Items: optional[exportItems]{value: e.items()}}
	if err := c.decode(&in); err != nil {
		return err
	}
	switch {
	case in.SourceFileURL.set && in.Items.set:
		return invalidRequest("sourceFileUrl and items must not be given together")
	case !in.SourceFileURL.set && !in.Items.set:
		return invalidRequest("sourceFileUrl or items must be given")
	}
	request := exports.LinkRequest{Owner: exports.Digest(c.key.Digest), Client: c.linkClient(), Single: in.SourceFileURL.set}
	items, size := in.Items.value.batch()
	err := c.settle(size + int64(len(in.SourceFileURL.value)))
	switch {
	case err != nil:
		return err
	case request.Single:
		request.Items = make([]exports.BatchItem, 1)
		request.Items[0], err = e.find(c, singleExportRequest{in.SourceFileURL.value, in.FileName})
	default:
		request.Items, err = e.findBatch(c, items)
	}
	if err != nil {
		return err
	}
	link, err := e.all.Tenant(c.tenant).CreateLink(c.r.Context(), request)
	if err != nil {
		return err
	}
	c.logSkipped(http.StatusCreated, link.Skipped)
	return c.encode(http.StatusCreated, newLinkResponse(link))
}

func (e exportEndpoints) serveLink(c *call) error {
	if isFetch(c.r.Header) {
		return errLoop
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	link, err := e.all.FindLink(ctx, c.r.PathValue("token"))
	if err != nil {
		return err
	}
	key, err := c.checkLinkKey(link.Owner, link.Tenant)
	c.keyID = key.ID // also of a rejected key
	c.link = link
	if err == nil && key.ID != 0 {
		err = c.permit(&key, nil)
	}
	if err != nil {
		return err
	}
	return download(func(c *call) error {
		link, err := c.loadPlan(ctx, link)
		if err != nil {
			return err
		}
		return c.sendLink(link)
	})(c)
}

// loadPlan returns a link when there is memory for its plan.
func (c *call) loadPlan(ctx context.Context, found *exports.FoundLink) (*exports.Link, error) {
	const factor = 3 // decoded, with its manifest
	if err := c.reserve(factor * int64(found.PlanSize)); err != nil {
		return nil, err
	}
	return found.Load(ctx)
}

// loopID names this library in the header CDN-Loop. Package fetch sends it.
const loopID = "canvasback"

// isFetch reports whether a server of this library requests an exported file (RFC
// 8586, section 2). A link could otherwise be the file of an export in it.
func isFetch(header http.Header) bool {
	for element := range strings.SplitSeq(strings.Join(header.Values("CDN-Loop"), ","), ",") {
		id, _, _ := strings.Cut(element, ";")
		if strings.EqualFold(strings.TrimSpace(id), loopID) {
			return true
		}
	}
	return false
}

// checkLinkKey returns the key that a link belongs to, and [linkserve.ErrRevoked] if it
// is no longer accepted. With open client routes, a link belongs to no key. The tenant is
// that of the link.
func (c *call) checkLinkKey(owner exports.Digest, tenant string) (keys.Key, error) {
	if c.api.options.DangerouslySkipClientKeys {
		return keys.Key{}, c.checkLinkTenant(new(keys.Key), tenant)
	}
	if c.api.options.Keys == nil || owner == (exports.Digest{}) {
		return keys.Key{}, linkserve.ErrRevoked
	}
	key, err := c.api.options.Keys.VerifyDigest(c.detached(), keys.Digest(owner))
	switch {
	case errors.Is(err, keys.ErrUnavailable):
		return keys.Key{}, err
	case err != nil, !key.Allows(ScopeExportsRead):
		return key, linkserve.ErrRevoked
	}
	return key, c.checkLinkTenant(&key, tenant)
}

// checkLinkTenant returns an error unless a link is one of the tenant of its key, which
// may be another than when it was made.
func (c *call) checkLinkTenant(key *keys.Key, tenant string) error {
	current, err := c.api.tenantOf(key)
	switch {
	case isUnavailable(err):
		return denied(err)
	case errors.Is(err, errPanic):
		return err
	case err != nil, current != tenant:
		return exports.ErrLinkNotFound
	}
	return nil
}

// scriptType matches the media types of scripts. A page of this origin whose policy is
// script-src 'self' must not run a file that a client has registered. Others are not run,
// because the response has nosniff.
var scriptType = regexp.MustCompile(`(?i)/(x-)?(java|ecma|j|live)script`)

func (c *call) sendLink(link *exports.Link) error {
	skipped, err := linkserve.Serve(&c.w, c.r, link, linkserve.Options{
		CheckKey: func() error {
			_, err := c.checkLinkKey(link.Owner, link.Tenant)
			return err
		},
		StoreTimeout: c.api.options.Limits.StoreTimeout,
		Describe: func(header http.Header, l *exports.Link) {
			mediaType := "application/zip"
			if !l.Zip {
				mediaType = downloadContentType(l.Type)
			}
			if scriptType.MatchString(mediaType) {
				mediaType = "application/octet-stream"
			}
			header.Set("Content-Type", mediaType)
			header.Set("Content-Disposition", filename.Disposition("attachment", l.FileName))
		},
		OnContent: func(l *exports.Link) {
			if c.api.options.Observe != nil {
				c.items = exports.BatchOf(l.Sources...)
			}
		},
		NewStream: c.newStream,
	})
	c.logSkipped(http.StatusOK, skipped)
	if err != nil && c.w.status != 0 {
		c.abort(err)
	}
	return err
}

// linkPath returns the URL of a link, relative to those of the routes that make links.
func linkPath(link *exports.Link) string {
	return "links/" + link.Token + "/" + url.PathEscape(link.FileName)
}

// linkClient identifies the client of a key that makes a link: a page token, or else the
// network of a client IP.
func (c *call) linkClient() string {
	if c.key.Token != nil {
		return "token " + c.key.Token.ID
	}
	return auth.Network(c.clientIP())
}

// publicBase returns the URL of the API for clients, prefix included.
func (c *call) publicBase() string {
	if base := c.api.options.PublicURL; base != "" {
		return base + c.api.prefix
	}
	scheme := "http"
	if c.r.TLS != nil {
		scheme = "https"
	}
	prefix := c.api.prefix
	if requested, err := url.ParseRequestURI(c.r.RequestURI); err == nil { // with what http.StripPrefix removes
		prefix = strings.TrimSuffix(requested.EscapedPath(), c.r.URL.EscapedPath())
	}
	return scheme + "://" + c.r.Host + prefix
}
