package exports

import (
	"context"
	"fmt"
	"slices"
	"time"
)

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
