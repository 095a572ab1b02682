package exports

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/zipstream"
)

// BatchItem is a source URL of a batch with its export.
type BatchItem struct {
	SourceURL string
	Path      string // folders of the entry in a zip, separated by slashes; up to 1,024 characters
	FileName  string // instead of that of the export, unless it is blank

	// FindItem, FindBatch and Resolve set the export, or why there is none: [ErrNotFound],
	// an error of [Options.Resolve], an [ErrInvalid] about SourceURL, or [ErrUnavailable].
	Export *Export
	Err    error

	absent bool // from all plans of a link
}

// BatchOf returns the items of source URLs.
func BatchOf(sources ...string) []BatchItem {
	items := make([]BatchItem, len(sources))
	for i, source := range sources {
		items[i].SourceURL = source
	}
	return items
}

// Named returns the export of the item, which must have one, with the file name of the item.
func (i *BatchItem) Named() Export {
	export := *i.Export
	if strings.TrimSpace(i.FileName) != "" {
		export.FileName = i.FileName
	}
	return export
}

func (i *BatchItem) checkNames(prefix string) error {
	const maxPathLength = 1024
	if utf8.RuneCountInString(i.Path) > maxPathLength {
		return invalid(fmt.Sprintf("%spath must have at most %d characters", prefix, maxPathLength))
	}
	return cmp.Or(checkText(prefix+"path", i.Path), checkText(prefix+"fileName", i.FileName))
}

// zipEntry describes the zip entry of an item's file. The fact may be nil.
func zipEntry(item *BatchItem, file *File, f *filefacts.Fact, names *filename.Dedup) zipstream.Entry {
	name := deliveryName(item.Named(), file)
	entry := zipstream.Entry{Name: names.Unique(item.Path, name), Modified: file.Modified, Size: file.Size, Streamed: true}
	if entry.Modified.IsZero() { // the same in each download
		entry.Modified = item.Export.UpdatedAt
	}
	if f != nil {
		crc, known := f.CRC()
		entry.CRC, entry.Streamed = crc, !known
	}
	return entry
}

// Skipped is an item that a batch does not deliver.
type Skipped struct {
	SourceURL string
	Reason    string // may be shown to clients
	Err       error  // for the log
}

// newSkipped returns the Skipped element of a source URL that failed with err. Its
// Reason reveals nothing about the server's network: it is the same for a name that
// does not exist and one with a private IP address.
func newSkipped(source string, err error) Skipped {
	reason := "file cannot be fetched"
	ofOpener := errors.Is(err, ErrForbidden) || errors.Is(err, ErrFailed) // whatever else it wraps
	switch _, notReady := errors.AsType[*NotReadyError](err); {
	case notReady:
		reason = "file is not ready"
	case errors.Is(err, ErrTimeout):
		reason = "file takes too long"
	case !ofOpener && errors.Is(err, ErrInvalid):
		reason = err.Error()
	case !ofOpener && errors.Is(err, ErrNotFound):
		reason = "not registered"
	}
	return Skipped{SourceURL: source, Reason: reason, Err: err}
}
