package httpapi

import (
	"context"
	"net/url"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/auth"
)

// linkPath returns the URL of a link, relative to those of the routes that make links.
func linkPath(link *exports.Link) string {
	return "links/" + link.Token + "/" + url.PathEscape(link.FileName)
}

// linkOwner returns the digest of the raw key of the request; zero without one.
func (c *call) linkOwner() (owner exports.Digest) {
	if c.verified {
		owner = exports.Digest(c.key.Digest)
	}
	return owner
}

// linkClient identifies the client of a key that makes a link: a page token, or else the
// network of a client IP.
func (c *call) linkClient() string {
	if c.key.Token != nil {
		return "token " + c.key.Token.ID
	}
	return auth.Network(c.clientIP())
}

// privateURL returns absolute URLs of links that stand for private files.
func (c *call) privateURL(service *exports.Service) exports.PrivateURL {
	owner, client := c.linkOwner(), c.linkClient()
	return func(ctx context.Context, export exports.Export) (string, error) {
		link, err := service.ShareLink(ctx, export, owner, client)
		if err != nil {
			return "", err
		}
		return c.publicBase() + "/viewer/exports/" + linkPath(link), nil
	}
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
