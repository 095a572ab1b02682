package exports

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"time"
)

// LinkWriter receives what [Link.Serve] delivers. One goroutine calls its methods.
type LinkWriter interface {
	// Select returns the sections of l to deliver, in their order. If it returns
	// none, or an error, nothing is delivered. Of a link that is not resumable, any
	// section stands for the complete content.
	//
	// If Select is called again, a file had changed before the first byte was
	// written. l then has another ETag and other content.
	Select(l *Link) ([]Section, error)

	// Begin is called before the first byte of a section is written, and as soon as
	// that is available. If the link is not resumable, Size, Type and Modified of l
	// are those of the files that were opened.
	Begin(l *Link, section int) error

	// Write writes bytes of a section.
	Write(p []byte) (int, error)

	// Flush is called before a wait for a slow file, but not before Begin.
	Flush() error
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

// maxDeliveries is how often one response may find that a file has changed.
const maxDeliveries = 3

// Serve delivers sections of the link to w, as [net/http.ServeContent] delivers those
// of a file. It also returns the items that a zip leaves out because their files
// could not be opened, unless the link is resumable.
//
// A file that has changed before the first byte is written gives the link a new plan.
// After it, the error matches [ErrChanged], [ErrGone], [ErrForbidden] or [ErrNotFound],
// the content is incomplete, and the next call makes the new plan, on any process. The
// error is a [LinkLimitError] if the link may not be served now. Other errors are those
// of [Service.Open] and [Service.OpenBatch], and those of w.
func (l *Link) Serve(ctx context.Context, w LinkWriter) (skipped []Skipped, err error) {
	d := &delivery{ctx: ctx, link: l, w: w}
	defer d.release()
	renew := l.outdated()
	for range maxDeliveries {
		if renew {
			if err = d.admit(d.link.Size); err == nil { // all, because a renewal sends requests and may wait
				d.link, err = d.link.renew(ctx)
			}
			if err != nil {
				return nil, err
			}
		}
		err = d.deliver()
		if d.begun > 0 || !isLost(err) || ctx.Err() != nil {
			break
		}
		renew = true
	}
	return d.skipped, err
}

// delivery is one call of [Link.Serve], and the [io.Writer] of its current section.
type delivery struct {
	ctx     context.Context
	link    *Link
	w       LinkWriter
	section int              // index
	begun   int              // sections for which Begin was called
	sent    int64            // bytes
	done    func(sent int64) // ends the admission; nil if there is none
	skipped []Skipped
}

// admit begins to serve n bytes of the link in place of what was admitted before.
func (d *delivery) admit(n int64) (err error) {
	d.release()
	d.done, err = d.link.service.usages.admit(d.link.stored, d.link.Size, n)
	return err
}

func (d *delivery) release() {
	if d.done != nil {
		d.done(d.sent)
		d.done = nil
	}
}

// deliver delivers what is selected of the current plan.
func (d *delivery) deliver() error {
	sections, err := d.w.Select(d.link)
	if err != nil || len(sections) == 0 {
		return err
	}
	if d.done == nil {
		length := int64(0)
		for _, s := range sections {
			length += s.Length
		}
		if !d.link.Resumable() {
			length = d.link.Size
		}
		if err := d.admit(length); err != nil {
			return err
		}
	}
	if !d.link.Resumable() {
		return d.deliverAll()
	}
	reader, err := d.link.open(d.ctx, sections, d.flush)
	if err != nil {
		return err
	}
	defer reader.Close()
	for d.section = range sections {
		err := reader.writeSection(d, d.section)
		if err == nil {
			err = d.begin() // of an empty file
		}
		if err != nil {
			if d.begun > 0 && isLost(err) {
				outdated := *d.link.plan // the next request, on any process, renews the link
				outdated.Outdated = true
				d.link.replace(context.Background(), &outdated) // if it fails, the next one notices the same change
			}
			return err
		}
	}
	return nil
}

// deliverAll delivers a link that is not resumable as what is registered for it now.
func (d *delivery) deliverAll() error {
	items, err := d.link.items(d.ctx)
	if err != nil {
		return err
	}
	link := *d.link
	d.link = &link
	if link.Zip {
		batch, err := link.service.openBatch(d.ctx, items, link.plan.requested(), maxNamedSkipped)
		if err != nil {
			return err
		}
		defer batch.Close()
		link.Size = batch.Size()
		err = batch.WriteZip(d, d.flush)
		d.skipped = batch.Skipped()
		return err
	}
	if items[0].Err != nil {
		return items[0].Err
	}
	download, err := link.service.Open(d.ctx, items[0].Named())
	if err != nil {
		return err
	}
	defer download.Close()
	if err := download.Prefetch(4 << 10); err != nil {
		return err
	}
	link.Size, link.Type, link.Modified = download.Size, download.Type, download.Modified
	var body io.Reader = download.Body
	if link.Size >= 0 { // of a local file that grows, too
		body = io.LimitReader(body, link.Size)
	}
	n, err := io.Copy(d, body)
	if err == nil && link.Size >= 0 && n != link.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	return d.begin() // of an empty file
}

func (d *delivery) flush() error {
	if d.begun == 0 {
		return nil
	}
	return d.w.Flush()
}

// begin begins the current section, unless it has begun.
func (d *delivery) begin() error {
	if d.section < d.begun {
		return nil
	}
	d.begun = d.section + 1
	return d.w.Begin(d.link, d.section)
}

// Write begins the current section before its first byte.
func (d *delivery) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := d.begin(); err != nil {
		return 0, err
	}
	n, err := d.w.Write(p)
	d.sent += int64(n)
	return n, err
}
