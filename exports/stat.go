package exports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
)

// maxFactAge is how long a fact may stand for a request to the upstream when a link
// is made. If the file has changed nevertheless, the first request that reads it
// notices.
const maxFactAge = time.Minute

// describe returns the description of each item's file. With a previous plan it asks
// each upstream, otherwise those of which there are no recent facts.
func (s *Service) describe(ctx context.Context, items []BatchItem, previous *plan) ([]plannedFile, error) {
	var urls []filefacts.Key
	byURL := make(map[filefacts.Key]*plannedFile)
	var unknown []*Export // one for each URL
	for _, item := range items {
		if item.Export == nil {
			continue
		}
		digest := factKey(item.Export.ExportedURL)
		if byURL[digest] == nil {
			byURL[digest] = new(plannedFile)
			urls = append(urls, digest)
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
			digest := factKey(export.ExportedURL)
			file, recent := s.recentFact(known[digest], export)
			if recent {
				*byURL[digest] = plannedFile{file: file, fact: known[digest]}
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
		files[i] = plannedFile{err: ErrNotFound}
		if item.Export != nil {
			files[i] = *byURL[factKey(item.Export.ExportedURL)]
		}
	}
	return files, nil
}

// recentFact returns the description of a file by a fact that stands for a request
// to the upstream: it was confirmed recently, after the export was registered, and
// its Opener can read parts. The fact may be nil.
func (s *Service) recentFact(f *filefacts.Fact, export *Export) (*File, bool) {
	if f == nil {
		return nil, false
	}
	known := f.Record()
	if age := s.now().Sub(known.SeenAt); age > maxFactAge || age < 0 || !known.SeenAt.After(export.UpdatedAt) {
		return nil, false
	}
	_, opener, err := s.locate(export.ExportedURL)
	if err != nil {
		return nil, false
	}
	_, ok := opener.(RangeOpener)
	return knownFile(known), ok
}

// statAll describes the files of exports, several at a time. It asks twice for a file
// whose validator is not that of the previous plan: one that differs in each response
// identifies nothing.
func (s *Service) statAll(ctx context.Context, list []*Export, validators map[string]string, byURL map[filefacts.Key]*plannedFile) {
	jobs := make([]prefetch.Job[statFile], len(list))
	for i, export := range list {
		jobs[i] = prefetch.Job[statFile]{
			Host:        hostOf(export.ExportedURL),
			Concurrency: func() int { return s.statPrefetch.Files },
			Open: func(ctx context.Context) (statFile, error) {
				file, err := s.stat(ctx, *export)
				previous, planned := validators[export.ExportedURL]
				if err != nil || !planned || file.Validator == "" || file.Validator == previous {
					return statFile{file}, err
				}
				again, err := s.stat(ctx, *export)
				if err == nil && again.Validator != file.Validator {
					again.Validator = ""
				}
				return statFile{again}, err
			},
		}
	}
	queue := prefetch.New(ctx, s.statPrefetch, jobs)
	defer queue.Close()
	for _, export := range list {
		digest := factKey(export.ExportedURL)
		result, err := queue.Next(func() {})
		if err != nil {
			byURL[digest].err = prefetchError(err)
			continue
		}
		file := result.File.file
		byURL[digest].file = file
		byURL[digest].fact = s.confirmFact(export.ExportedURL, file)
	}
}

// statFile is a description as an empty [prefetch.File].
type statFile struct{ file *File }

func (statFile) Read([]byte) (int, error) { return 0, io.EOF }
func (statFile) Close() error             { return nil }
func (statFile) Length() int64            { return 0 }
func (statFile) CanIdle() bool            { return true }

// stat describes the file of an export. The Validator is empty unless its Opener
// can read parts of it.
func (s *Service) stat(ctx context.Context, export Export) (*File, error) {
	u, opener, err := s.locate(export.ExportedURL)
	if err != nil {
		return nil, err
	}
	ranger, ok := opener.(RangeOpener)
	if !ok {
		download, err := s.Open(ctx, export)
		if err != nil {
			return nil, err
		}
		defer download.Close()
		file := cleanFile(download.File)
		file.Body, file.Validator, file.Name = nil, "", download.Name
		return &file, nil
	}
	file, cancel, err := openWithin(ctx, s.openTimeout, func(ctx context.Context) (*File, error) {
		return ranger.Stat(ctx, u)
	}, func(*File) {})
	if err != nil {
		return nil, err
	}
	cancel(nil)
	cleaned := cleanFile(*file)
	return &cleaned, nil
}

// checkPlanned returns an error if a planned file has changed.
func (s *Service) checkPlanned(ctx context.Context, e planEntry) error {
	file, err := s.stat(ctx, Export{ExportedURL: e.URL})
	if err == nil && (file.Validator != e.Validator || file.Size != e.Size) {
		err = ErrChanged
	}
	return err
}

// locate returns the parsed form of an exported URL and its Opener.
func (s *Service) locate(exportedURL string) (*url.URL, Opener, error) {
	u, err := url.Parse(exportedURL)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	opener := s.opener(u)
	if opener == nil {
		return nil, nil, ErrForbidden
	}
	return u, opener, nil
}

// openWithin calls open, and cancels its context if it takes longer than timeout.
// A context.WithTimeout would also end reads after the first byte. On success, the
// caller must call cancel when it is done with the result.
func openWithin[T any](
	ctx context.Context, timeout time.Duration, open func(context.Context) (T, error), closeResult func(T),
) (result T, cancel context.CancelCauseFunc, err error) {
	ctx, cancel = context.WithCancelCause(ctx)
	timer := time.AfterFunc(timeout, func() { cancel(ErrTimeout) })
	result, err = open(ctx)
	if !timer.Stop() && err == nil {
		closeResult(result)
		err = ErrTimeout
	}
	if err != nil {
		err = openError(err, context.Cause(ctx))
		cancel(nil)
	}
	return result, cancel, err
}

// isLost reports whether an error means that a file has changed or does not exist any
// more, so that its link must be renewed.
func isLost(err error) bool {
	return errors.Is(err, ErrChanged) || errors.Is(err, ErrGone) || errors.Is(err, ErrForbidden) || errors.Is(err, ErrNotFound)
}

// cleanFile removes from a description of a file what stores cannot hold.
func cleanFile(file File) File {
	clean := func(text string) string {
		return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	}
	file.Type, file.Name = clean(file.Type), clean(file.Name)
	if !utf8.ValidString(file.Validator) || strings.ContainsRune(file.Validator, 0) {
		file.Validator = ""
	}
	return file
}
