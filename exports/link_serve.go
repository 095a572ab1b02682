package exports

import (
	"context"
	"fmt"
	"io"
	"slices"
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

// outdated reports whether the link must be renewed before it is delivered: a previous
// response found that a file has changed, or the link is not resumable and may have
// become so, or it has a header whose CRC would have to be read first, as the version
// before planned it for small files.
func (l *Link) outdated() bool {
	age := l.service.now().Sub(time.UnixMilli(l.plan.MadeAt))
	return l.plan.Outdated || !l.plan.Resumable && age > notResumableAge ||
		slices.ContainsFunc(l.plan.Entries, func(e planEntry) bool { return l.Zip && !e.Streamed && e.CRC32 == nil })
}

// renew returns the link with a new plan of what is registered and available now. If another
// call or process has replaced the plan of l before, renew returns the link with that plan.
//
// If a file that was available cannot be reached for the moment, renew returns the
// error and the link keeps its plan. A request lasts until its plan is made, even if ctx ends.
func (l *Link) renew(ctx context.Context) (*Link, error) {
	return share(context.WithoutCancel(ctx), l.service, fmt.Sprintf("renew %x %d", l.stored.Digest[:], l.stored.Version), l.replan)
}

func (l *Link) replan(ctx context.Context) (*Link, error) {
	items, err := l.items(ctx)
	if err != nil {
		return nil, err
	}
	p, files, err := l.service.newPlan(ctx, items, l.plan.Zip, l.plan)
	skipped := make(map[int]bool)
	for _, s := range l.plan.Skipped {
		skipped[s.Source] = true
	}
	for i, f := range files {
		if f.err != nil && !isLost(f.err) && !skipped[i] {
			return nil, f.err
		}
	}
	if err != nil {
		return nil, err
	}
	if size := len(p.encode()); size > maxPlanSize {
		return nil, fmt.Errorf("%w: the new plan of its link has %d bytes", ErrFailed, size)
	}
	return l.replace(ctx, p)
}

func (l *Link) replace(ctx context.Context, p *plan) (*Link, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	stored, err := l.service.links.ReplacePlan(ctx, l.stored.Digest, l.stored.Version, p.encode())
	if err != nil {
		return nil, storeError("replace plan", err)
	}
	return l.service.decodeLink(stored)
}

// items returns the sources of the link with their exports, but for those that had none
// when it was made. The error matches [ErrUnavailable].
func (l *Link) items(ctx context.Context) ([]BatchItem, error) {
	items := BatchOf(l.plan.Sources...)
	for _, name := range l.plan.Names {
		items[name.Source].Path, items[name.Source].FileName = name.Path, name.FileName
	}
	for _, s := range l.plan.Skipped {
		if s.Absent {
			items[s.Source].absent, items[s.Source].Err = true, invalid(s.Reason)
		}
	}
	storeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	service := l.service.Tenant(l.Tenant)
	err := service.lookUp(storeCtx, items)
	if err == nil {
		service.Resolve(ctx, items)
	}
	return items, err
}
