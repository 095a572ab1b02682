package exports

import (
	"context"
	"fmt"
	"slices"
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

// newPlan makes the plan of items, of which one is the file of a link without zip.
// It opens no file to read it: sizes come from the upstreams, or from facts that
// were confirmed recently if there is no previous plan.
//
// The second result has an element for each item. If no file is available, the error
// is a [BatchError], or that of the single file.
func (s *Service) newPlan(ctx context.Context, items []BatchItem, zip bool, previous *plan) (*plan, []plannedFile, error) {
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
		if f.err == nil {
			p.addSource(&items[i])
			p.add(&items[i], f, names)
			continue
		}
		skip := newSkipped(items[i].SourceURL, f.err)
		skipped = append(skipped, skip)
		absent := items[i].absent || previous == nil && items[i].Err != nil
		if absent {
			absentSize += len(skip.SourceURL)
		}
		if !absent || len(p.Skipped) < maxNamedSkipped && absentSize <= maxAbsentSize {
			p.Skipped = append(p.Skipped, planSkipped{p.addSource(&items[i]), skip.Reason, absent})
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

func (p *plan) add(item *BatchItem, f plannedFile, names *filename.Dedup) {
	e := zipEntry(item, f.file, f.fact, names)
	entry := planEntry{URL: item.Export.ExportedURL, Name: e.Name, Modified: e.Modified.Unix(), Size: e.Size, Streamed: e.Streamed}
	if f.fact == nil {
		p.Resumable = false
	} else {
		entry.Validator, entry.Revision = f.file.Validator, f.fact.Record().Revision
		if crc, ok := f.fact.CRC(); ok {
			entry.CRC32 = &crc
		}
	}
	p.Entries = append(p.Entries, entry)
}

// plannedFile is the description of an item's file, or the reason to skip it.
type plannedFile struct {
	file *File // without Body
	fact *filefacts.Fact
	err  error
}

// maxFactAge is how long a fact may stand for a request to the upstream when a link
// is made. If the file has changed nevertheless, the first request that reads it
// notices.
const maxFactAge = time.Minute

// notResumable returns why a link with the file is not resumable.
func (f plannedFile) notResumable() string {
	if f.file.Size < 0 {
		return "the size of the file is unknown"
	}
	return "the file has no strong validator"
}

// describe returns the description of each item's file. With a previous plan it asks
// each upstream, otherwise those of which there are no recent facts.
func (s *Service) describe(ctx context.Context, items []BatchItem, previous *plan) ([]plannedFile, error) {
	byURL := make(map[string]*plannedFile)
	var urls []filefacts.Key
	var unknown []*Export // one for each URL
	for _, item := range items {
		if item.Err == nil && byURL[item.Export.ExportedURL] == nil {
			byURL[item.Export.ExportedURL] = new(plannedFile)
			urls = append(urls, factKey(item.Export.ExportedURL))
			unknown = append(unknown, item.Export)
		}
	}
	known, err := s.facts.Load(ctx, urls)
	if err != nil {
		return nil, storeError("load facts", err)
	}
	validators := make(map[string]string) // of the previous plan, by URL
	if previous != nil {
		for _, e := range previous.Entries {
			validators[e.URL] = e.Validator
		}
	} else {
		unknown = slices.DeleteFunc(unknown, func(export *Export) bool {
			fact := known[factKey(export.ExportedURL)]
			recent := fact != nil && s.isRecent(fact.Record(), export)
			if recent {
				*byURL[export.ExportedURL] = plannedFile{file: knownFile(fact.Record()), fact: fact}
			}
			return recent
		})
	}
	s.statAll(ctx, unknown, validators, byURL)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	files := make([]plannedFile, len(items))
	for i, item := range items {
		files[i] = plannedFile{err: item.Err}
		if item.Err == nil {
			files[i] = *byURL[item.Export.ExportedURL]
		}
	}
	return files, nil
}

// isRecent reports whether a fact stands for a request to the upstream: it was confirmed
// recently, after the export was registered, and its Opener can read parts.
func (s *Service) isRecent(known filefacts.Record, export *Export) bool {
	age := s.now().Sub(known.SeenAt)
	_, opener, err := s.locate(export.ExportedURL)
	_, ok := opener.(RangeOpener)
	return 0 <= age && age <= maxFactAge && known.SeenAt.After(export.UpdatedAt) && err == nil && ok
}

func knownFile(r filefacts.Record) *File {
	return &File{Size: r.Size, Type: r.Type, Name: r.Name, Modified: r.Modified, Validator: r.Validator}
}

// statAll describes the files of exports, several at a time. It asks twice for a file
// whose validator is not that of the previous plan: one that differs in each response
// identifies nothing.
func (s *Service) statAll(ctx context.Context, list []*Export, validators map[string]string, byURL map[string]*plannedFile) {
	hosts := make([]string, len(list))
	for i, export := range list {
		hosts[i] = hostOf(export.ExportedURL)
	}
	results := inParallel(ctx, s.prefetch, hosts, func(ctx context.Context, i int) (*File, error) {
		file, err := s.stat(ctx, *list[i])
		previous, planned := validators[list[i].ExportedURL]
		if err != nil || !planned || file.Validator == "" || file.Validator == previous {
			return file, err
		}
		again, err := s.stat(ctx, *list[i])
		if err == nil && again.Validator != file.Validator {
			again.Validator = ""
		}
		return again, err
	})
	for i, export := range list {
		file := byURL[export.ExportedURL]
		if err := results[i].err; err != nil {
			file.err = openError(err, nil)
			continue
		}
		file.file, file.fact = results[i].value, s.confirmFact(export.ExportedURL, results[i].value)
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
	cleaned := cleanFile(*file)
	cleaned.Body = nil
	return &cleaned, nil
}
