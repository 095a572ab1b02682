package exports

import (
	"context"
	"fmt"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/filefacts"
)

// A link that has been renewed maxRenewals times, each time within quickRenewal, has
// a file whose validator keeps changing. It is not resumable until that ends.
const (
	maxRenewals  = 8
	quickRenewal = 10 * time.Minute
)

// A plan that is not resumable is used for this time before its files are described again.
const notResumableAge = time.Minute

// newPlan makes the plan of items, of which one is the file of a link without zip.
// It opens no file to read it: sizes come from the upstreams.
//
// The second result has an element for each item. If no file is available, the error
// is a [BatchError], or that of the single file.
func (s *Service) newPlan(ctx context.Context, items []BatchItem, zip bool, previous *plan) (*plan, []*plannedFile, error) {
	files, err := s.describe(ctx, items, previous)
	if err != nil {
		return nil, nil, err
	}
	if !zip && files[0].err != nil {
		return nil, files, files[0].err
	}
	p := &plan{Layout: planLayout, Zip: zip, MadeAt: s.now().UnixMilli(), FileName: BatchName, Resumable: true, Size: -1}
	if previous != nil && p.MadeAt-previous.MadeAt < quickRenewal.Milliseconds() {
		p.Renewals = previous.Renewals + 1
		p.Resumable = p.Renewals < maxRenewals
	}
	names := filename.NewDedup()
	if zip {
		names = filename.NewDedup(manifestName)
	}
	var skipped []Skipped
	absentSize := 0
	for i, f := range files {
		item := &items[i]
		if f.err == nil {
			p.addSource(item)
			p.add(item, f, names)
			continue
		}
		skip := newSkipped(item.SourceURL, f.err)
		skipped = append(skipped, skip)
		absent := item.absent || previous == nil && item.Err != nil
		if absent {
			absentSize += len(skip.SourceURL)
		}
		if !absent || len(p.Skipped) < maxNamedSkipped && absentSize <= maxAbsentSize {
			p.Skipped = append(p.Skipped, planSkipped{p.addSource(item), skip.Reason, absent})
		}
	}
	if len(p.Entries) == 0 {
		return nil, files, newBatchError(skipped)
	}
	requested := len(items)
	if previous != nil {
		requested = previous.requested()
	}
	if requested > len(p.Entries)+len(p.skipped()) {
		p.Layout, p.Requested = partLayout, requested
	}
	if !zip {
		p.FileName, p.Type, p.Size = p.Entries[0].Name, files[0].file.Type, p.Entries[0].Size
		p.Entries[0].Modified = files[0].file.Modified.Unix()
	}
	if err := p.layOut(); err != nil {
		return nil, files, fmt.Errorf("%w: %w", ErrFailed, err)
	}
	if p.archive != nil {
		p.Size = p.archive.Size()
	}
	return p, files, nil
}

// addSource adds the source of an item, and returns its index.
func (p *plan) addSource(item *BatchItem) int {
	i := len(p.Sources)
	p.Sources = append(p.Sources, item.SourceURL)
	if item.Path != "" || item.FileName != "" {
		p.Names = append(p.Names, planName{i, item.Path, item.FileName})
	}
	return i
}

func (p *plan) add(item *BatchItem, f *plannedFile, names *filename.Dedup) {
	e := zipEntry(item, f.file, f.fact, names)
	entry := planEntry{URL: item.Export.ExportedURL, Name: e.Name, Modified: e.Modified.Unix(), Size: e.Size, Streamed: e.Streamed}
	if f.fact == nil {
		p.Resumable = false
	} else {
		entry.Validator, entry.Revision = f.file.Validator, f.fact.Revision()
		if crc, ok := f.fact.CRC(); ok {
			entry.CRC32 = &crc
		}
	}
	p.Entries = append(p.Entries, entry)
}

// plannedFile is the description of the file of one or more items, or the reason to skip
// them.
type plannedFile struct {
	export   *Export
	previous *planEntry // of the previous plan; nil if it has none
	file     *File      // without Body
	fact     *filefacts.Fact
	err      error
}

// notResumable returns why a link with the file is not resumable.
func (f *plannedFile) notResumable() string {
	if f.file.Size < 0 {
		return "the size of the file is unknown"
	}
	return "the file has no strong validator"
}

// describe asks the upstream of each item's file, once for each URL.
func (s *Service) describe(ctx context.Context, items []BatchItem, previous *plan) ([]*plannedFile, error) {
	files := make([]*plannedFile, len(items))
	byURL := make(map[string]*plannedFile)
	var urls []filefacts.Key
	var distinct []*plannedFile
	for i, item := range items {
		if item.Err != nil {
			files[i] = &plannedFile{err: item.Err}
			continue
		}
		f := byURL[item.Export.ExportedURL]
		if f == nil {
			f = &plannedFile{export: item.Export}
			byURL[f.export.ExportedURL] = f
			distinct = append(distinct, f)
			urls = append(urls, factKey(f.export.ExportedURL))
		}
		files[i] = f
	}
	if err := s.facts.Load(ctx, urls); err != nil {
		return nil, storeError("load facts", err)
	}
	if previous != nil {
		for i, e := range previous.Entries {
			if f := byURL[e.URL]; f != nil {
				f.previous = &previous.Entries[i]
			}
		}
	}
	s.statAll(ctx, distinct)
	return files, ctx.Err()
}

// statAll describes files by their upstreams, several at a time. It asks twice for a file
// whose validator is not that of the previous plan: one that differs in each response
// identifies nothing.
func (s *Service) statAll(ctx context.Context, files []*plannedFile) {
	hosts := make([]string, len(files))
	for i, f := range files {
		hosts[i] = hostOf(f.export.ExportedURL)
	}
	results := inParallel(ctx, s.prefetch, hosts, func(ctx context.Context, i int) (*File, error) {
		f := files[i]
		file, err := s.stat(ctx, *f.export)
		if err != nil || f.previous == nil || file.Validator == "" || file.Validator == f.previous.Validator {
			return file, err
		}
		again, err := s.stat(ctx, *f.export)
		if err == nil && again.Validator != file.Validator {
			again.Validator = ""
		}
		return again, err
	})
	for i, f := range files {
		if err := results[i].err; err != nil {
			f.err = openError(err, nil)
			continue
		}
		f.file, f.fact = results[i].value, s.fact(f.export.ExportedURL, results[i].value)
	}
}

// stat describes the file of an export. The Validator is empty unless its Opener
// can read parts of it.
func (s *Service) stat(ctx context.Context, export Export) (*File, error) {
	u, opener, err := s.locate(export.ExportedURL)
	if err != nil {
		return nil, err
	}
	file, cancel, err := openWithin(ctx, s.options.OpenTimeout, func(ctx context.Context) (*File, error) {
		if ranger, ok := opener.(RangeOpener); ok {
			return ranger.Stat(ctx, u)
		}
		file, err := opener.Open(ctx, u)
		if err == nil {
			file.Body.Close()
			file.Validator = ""
		}
		return file, err
	}, func(*File) {})
	if err != nil {
		return nil, err
	}
	cancel(nil)
	described := *file
	described.Body = nil
	return &described, nil
}
