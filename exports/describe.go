package exports

import (
	"context"

	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
)

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
	errs := prefetch.Parallel(s.prefetch, hosts, func(i int) (err error) {
		f := files[i]
		f.file, err = s.stat(ctx, *f.export)
		if err != nil || f.previous == nil || f.file.Validator == "" || f.file.Validator == f.previous.Validator {
			return err
		}
		before := f.file.Validator
		f.file, err = s.stat(ctx, *f.export)
		if err == nil && f.file.Validator != before {
			f.file.Validator = ""
		}
		return err
	})
	for i, f := range files {
		if errs[i] != nil {
			f.err = openError(errs[i], nil)
			continue
		}
		f.fact = s.fact(f.export.ExportedURL, f.file)
	}
}
