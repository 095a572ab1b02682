package exports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/canvasback/exports/internal/prefetch"
)

// MaxURLLength bounds source URLs, exported URLs and file names, in Unicode code
// points.
const MaxURLLength = 8192

// checkText rejects text that some stores cannot hold.
func checkText(field, text string) error {
	switch {
	case !utf8.ValidString(text):
		return invalid(field + " must be valid UTF-8")
	case strings.ContainsRune(text, 0):
		return invalid(field + " must not contain a NUL character")
	case utf8.RuneCountInString(text) > MaxURLLength:
		return invalid(fmt.Sprintf("%s must have at most %d characters", field, MaxURLLength))
	}
	return nil
}

// parseExported parses the URL of an exported file. An [Opener] decides whether
// it is allowed.
func parseExported(exported string) (*url.URL, error) {
	const field = "exportedUrl"
	if exported == "" {
		return nil, invalid(field + " must not be empty")
	}
	if err := checkText(field, exported); err != nil {
		return nil, err
	}
	u, err := url.Parse(exported)
	switch {
	case err != nil, u.Opaque != "", u.Host == "", u.Scheme == "":
		return nil, invalid(field + " must be an absolute URL, such as https://...")
	case u.User != nil:
		return nil, invalid(field + " must not contain a user or password")
	}
	return u, nil
}

// linkToken matches the token of a download link, whose URL may be relative.
var linkToken = regexp.MustCompile(`((?:^|/)links/)[\w-]{43}`)

// delimiter matches what delimits a part of a URL, also if it is percent-encoded.
var delimiter = regexp.MustCompile(`(?i)[/\\@?#]|%(2f|5c|40|3f|23)`)

// RedactURL returns rawURL for a log: without user info, query and fragment, which often
// hold secrets, and without the token of a download link. It cuts a longer result to 200
// bytes and "...", and returns "[invalid URL]" if it cannot find where secrets would be.
func RedactURL(rawURL string) string {
	const most = 200
	u, err := url.Parse(strings.TrimSpace(rawURL))
	if err != nil && !delimiter.MatchString(rawURL) { // a name, such as 7:plan
		u, err = &url.URL{Opaque: url.PathEscape(strings.TrimSpace(rawURL))}, nil
	}
	if err != nil || strings.Contains(u.Opaque, "@") { // as in user:password@host
		return "[invalid URL]"
	}
	if u.Host == "" && u.RawPath != "" && strings.Contains(u.Path, "://") { // a URL that is percent-encoded
		return "[invalid URL]"
	}
	redact := func(path string) string { return linkToken.ReplaceAllString(path, "${1}...") }
	opaque := redact(strings.ReplaceAll(u.Opaque, " ", "%20")) // as in Path, so that a list of URLs can be read
	path := redact(u.Path)
	// RawPath is ignored if it does not encode the path.
	text := (&url.URL{Scheme: u.Scheme, Opaque: opaque, Host: u.Host, Path: path, RawPath: u.RawPath}).String()
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// SourceKey returns what is looked up and registered for a source URL: that without
// surrounding white space, mapped by [Options.SourceKey]. The error matches [ErrInvalid]
// if the source is empty, too long or not valid.
func (s *Service) SourceKey(source string) (key string, err error) {
	const field = "sourceFileUrl"
	key = strings.TrimSpace(source)
	if err := checkText(field, key); err != nil {
		return "", err
	}
	if key != "" && s.options.SourceKey != nil {
		key = strings.TrimSpace(s.options.SourceKey(key)) // the stores rely on it
	}
	if key == "" {
		return "", invalid(field + " must not be empty")
	}
	return key, checkText(field, key)
}

// Registration is the input of [Service.Register].
type Registration struct {
	// White space around the URLs is removed.
	SourceURL   string
	ExportedURL string

	// FileName is stored as given and cleaned when it is used. Nil keeps the
	// previous one; empty or only white space means none.
	FileName *string

	By         string // see RegisteredBy of [Export]
	OwnOnly    bool   // return [ErrNotOwner] rather than replace the export of another
	IfAbsent   bool   // return the export that the source has rather than replace it
	PublicOnly bool   // return [ErrPrivate] if the file is one of a [Presigner] or private
}

// check returns the export of a registration, without times.
func (s *Service) check(r Registration) (export Export, err error) {
	if export.SourceURL, err = s.SourceKey(r.SourceURL); err != nil {
		return Export{}, err
	}
	export.ExportedURL = strings.TrimSpace(r.ExportedURL)
	u, err := parseExported(export.ExportedURL)
	if err != nil {
		return Export{}, err
	}
	if r.FileName != nil {
		if err := checkText("fileName", *r.FileName); err != nil {
			return Export{}, err
		}
		if strings.TrimSpace(*r.FileName) != "" {
			export.FileName = *r.FileName
		}
	}
	export.Tenant, export.RegisteredBy = s.tenant, r.By
	if err := cmp.Or(checkText("registeredBy", r.By), checkText("tenant", s.tenant), s.checkAllowed(u)); err != nil {
		return Export{}, err
	}
	if r.PublicOnly && isPrivate(s.opener(u), u) {
		return Export{}, ErrPrivate
	}
	return export, nil
}

// checkAllowed returns an error with the reason of the Opener if u may not be
// opened.
func (s *Service) checkAllowed(u *url.URL) error {
	const message = "exportedUrl is not an allowed URL"
	opener := s.opener(u)
	switch {
	case opener == nil && u.Scheme == "s3":
		return invalid(message + ": the bucket " + u.Host + " is not configured")
	case opener == nil && !isWeb(u):
		return invalid("exportedUrl must be an http or https URL, or have a configured scheme and host")
	case opener == nil:
		return invalid(message)
	}
	err := opener.Check(u)
	if err == nil {
		return nil
	}
	if forbidden, ok := errors.AsType[*ForbiddenError](err); ok && forbidden.Reason != "" {
		return invalid(message + ": " + forbidden.Reason)
	}
	return invalid(message)
}

// Register registers the export of a source in place of a previous one; created reports
// that there was none. The error matches [ErrInvalid] if a field is invalid or the exported
// URL may not be opened, or is [ErrNotOwner] or [ErrPrivate]: see [Registration].
func (s *Service) Register(ctx context.Context, r Registration) (export Export, created bool, err error) {
	if export, err = s.check(r); err != nil {
		return Export{}, false, err
	}
	export.CreatedAt = s.now()
	export.UpdatedAt = export.CreatedAt
	export, created, err = s.store.Put(ctx, export, PutRule{KeepName: r.FileName == nil, OwnOnly: r.OwnOnly, IfAbsent: r.IfAbsent})
	return export, created, storeError("put export", err)
}

// Find returns the export that is registered for a source URL, or [ErrNotFound]; it does
// not call [Options.Resolve]. The error matches [ErrInvalid] if source is empty, too long or
// not valid.
func (s *Service) Find(ctx context.Context, source string) (Export, error) {
	items := []BatchItem{{SourceURL: source}}
	if err := s.lookUp(ctx, items); err != nil || items[0].Err != nil {
		return Export{}, cmp.Or(err, items[0].Err)
	}
	return *items[0].Export, nil
}

// FindItem returns an item with the registered export, if there is one. Pass it to
// [Service.Resolve] next, and then, unless it has an Err, its Named to [Service.Open].
// The error matches [ErrInvalid] if a field is invalid.
func (s *Service) FindItem(ctx context.Context, item BatchItem) (BatchItem, error) {
	if err := item.checkNames(""); err != nil {
		return item, err
	}
	items := []BatchItem{item}
	err := s.lookUp(ctx, items)
	if errors.Is(items[0].Err, ErrInvalid) {
		err = items[0].Err
	}
	return items[0], err
}

// MaxItems returns the largest number of items in a batch.
func (s *Service) MaxItems() int { return s.options.MaxItems }

// FindBatch returns the items with the registered exports, in the same order, for
// [Service.Resolve] and then [Service.OpenBatch] or [Service.CreateLink]. The error matches
// [ErrInvalid] if there are no items, too many, none with a usable source URL, or one with an
// invalid path or file name.
func (s *Service) FindBatch(ctx context.Context, items []BatchItem) ([]BatchItem, error) {
	if len(items) == 0 {
		return nil, invalid("items must not be empty")
	}
	if len(items) > s.options.MaxItems {
		return nil, invalid(fmt.Sprintf("items must have at most %d elements", s.options.MaxItems))
	}
	for i := range items {
		if err := items[i].checkNames(fmt.Sprintf("items[%d].", i)); err != nil {
			return nil, err
		}
	}
	items = slices.Clone(items)
	if err := s.lookUp(ctx, items); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(items, func(item BatchItem) bool { return !errors.Is(item.Err, ErrInvalid) }) {
		return nil, invalid("items has no element with a usable sourceFileUrl")
	}
	return items, nil
}

func (s *Service) lookUp(ctx context.Context, items []BatchItem) error {
	byKey := make(map[string][]*BatchItem)
	for i := range items {
		item := &items[i]
		if item.Export = nil; item.absent {
			continue
		}
		var key string
		if key, item.Err = s.SourceKey(item.SourceURL); item.Err == nil {
			item.Err = ErrNotFound
			byKey[key] = append(byKey[key], item)
		}
	}
	for part := range slices.Chunk(slices.Collect(maps.Keys(byKey)), 100) { // texts are long
		found, err := s.store.Find(ctx, s.tenant, part...)
		if err != nil {
			return storeError("find exports", err)
		}
		for _, export := range found {
			for _, item := range byKey[export.SourceURL] {
				item.Export, item.Err = new(export), nil
			}
		}
	}
	return nil
}

// ResolveRequest asks for the export of a source for which none is registered.
type ResolveRequest struct {
	// Source is what the client sent, without surrounding white space. The client
	// chose it: an application that requests it must guard against SSRF itself.
	Source string

	Tenant string // of the client; empty without tenants
}

// Resolution is the export of a source.
type Resolution struct {
	ExportedURL string // must be allowed like that of a registration, and last for [Options.LinkLifetime]
	FileName    string // may be empty
	Register    bool   // store the export for later requests, unless one has been registered meanwhile
}

// Resolve sets the exports of items that are not registered, if there is an
// [Options.Resolve], several at a time. The other functions of a batch do not call it.
func (s *Service) Resolve(ctx context.Context, items []BatchItem) {
	if s.options.Resolve == nil {
		return
	}
	missing := make(map[string][]*BatchItem) // by source
	var sources []string
	for i := range items {
		if item := &items[i]; item.Err == ErrNotFound {
			source := strings.TrimSpace(item.SourceURL)
			if missing[source] == nil {
				sources = append(sources, source)
			}
			missing[source] = append(missing[source], item)
		}
	}
	found, failed := make([]*Export, len(sources)), make([]error, len(sources))
	timeouts := prefetch.Parallel(s.prefetch, make([]string, len(sources)), func(i int) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		found[i], failed[i] = s.resolveOnce(ctx, sources[i])
		if errors.Is(failed[i], ErrTimeout) { // many in a row end the others
			return failed[i]
		}
		return nil
	})
	for i, source := range sources {
		err := cmp.Or(openError(timeouts[i], nil), failed[i])
		for _, item := range missing[source] {
			if item.Err = err; err == nil {
				item.Export = new(*found[i]) // several requests share it
			}
		}
	}
}

// resolveOnce shares a call among the requests for one source. Each waits for it, at most
// OpenTimeout, even if its client has left or the application ignores the context.
func (s *Service) resolveOnce(ctx context.Context, source string) (*Export, error) {
	wait, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.options.OpenTimeout, fmt.Errorf("%w: resolve", ErrTimeout))
	defer cancel()
	return share(wait, s, fmt.Sprintf("resolve %q %s", s.tenant, source), func(ctx context.Context) (*Export, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, s.options.OpenTimeout, ErrTimeout)
		defer cancel()
		return s.resolveSource(ctx, source)
	})
}

// share calls f once for all callers with a key that wait at the same time. The call goes
// on when the context of one of them ends.
func share[T any](ctx context.Context, s *Service, key string, f func(ctx context.Context) (T, error)) (value T, err error) {
	result := s.flights.DoChan(key, func() (_ any, err error) {
		defer func() {
			if reason := recover(); reason != nil { // it would end the process
				err = fmt.Errorf("%w: panic: %v\n%s", ErrFailed, reason, debug.Stack())
			}
		}()
		return f(context.WithoutCancel(ctx))
	})
	select {
	case r := <-result:
		value, _ = r.Val.(T)
		return value, r.Err
	case <-ctx.Done():
		return value, openError(context.Cause(ctx), nil)
	}
}

func (s *Service) resolveSource(ctx context.Context, source string) (*Export, error) {
	resolved, err := s.options.Resolve(ctx, ResolveRequest{Source: source, Tenant: s.tenant})
	if notReady, ok := errors.AsType[*NotReadyError](err); ok {
		if notReady.RetryAfter <= 0 {
			return nil, &NotReadyError{5 * time.Second}
		}
		return nil, &NotReadyError{min(max(notReady.RetryAfter, time.Second), 24*time.Hour)}
	}
	switch failed := openError(err, context.Cause(ctx)); {
	case errors.Is(err, ErrNotFound):
		return nil, ErrNotFound
	case err != nil: // only its text is kept: it may be of another service
		return nil, fmt.Errorf("%w: resolve: %s", kindOf(failed), err.Error())
	}
	r := Registration{SourceURL: source, ExportedURL: resolved.ExportedURL, FileName: &resolved.FileName, IfAbsent: true}
	var export Export
	if resolved.Register {
		export, _, err = s.Register(ctx, r)
	} else {
		export, err = s.check(r)
	}
	if errors.Is(err, ErrInvalid) { // what the application has returned
		err = fmt.Errorf("%w: resolve: %s", ErrFailed, err.Error())
	}
	return &export, err
}
