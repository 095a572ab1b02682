package exports

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"strings"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
	"example.com/canvasback/exports/internal/zipstream"
)

// planLayout is raised when the bytes of an archive change for equal plans. The layout
// of a plan is partLayout if its manifest does not name all that is skipped, which the
// version before would do.
const (
	planLayout = 2
	partLayout = 3
)

// plan describes the bytes of a link. It is stored as JSON and never changes; a
// link gets another plan instead. All bytes except CRCs follow from it, and those
// follow from the validators.
type plan struct {
	Layout    int           `json:"layout"`
	Zip       bool          `json:"zip"`
	Sources   []string      `json:"sources"` // as requested, but for those that are left out
	Names     []planName    `json:"names,omitempty"`
	Requested int           `json:"requested,omitempty"` // sources; len(Sources) if zero
	MadeAt    int64         `json:"madeAt"`              // Unix milliseconds
	FileName  string        `json:"fileName"`
	Type      string        `json:"type,omitempty"` // of a single file
	Resumable bool          `json:"resumable"`
	Size      int64         `json:"size"` // -1 if unknown
	Entries   []planEntry   `json:"entries"`
	Skipped   []planSkipped `json:"skipped,omitempty"`

	// Renewals is how many resumable plans came before, each within quickRenewal.
	Renewals int `json:"renewals,omitempty"`

	// Outdated means that the plan cannot be delivered, and that the next
	// request must replace it.
	Outdated bool `json:"outdated,omitempty"`

	// What follows from the fields above. The etag is empty unless the plan is resumable,
	// and the archive nil unless it is also a zip.
	version  int64     // in the store
	read     time.Time // a failover can lose a version, which then recurs with another plan
	etag     string
	archive  *zipstream.Archive
	manifest []byte // content of manifest.json
}

type planEntry struct {
	URL       string  `json:"url"`
	Name      string  `json:"name"`
	Modified  int64   `json:"modified"` // Unix seconds
	Size      int64   `json:"size"`
	Streamed  bool    `json:"streamed,omitempty"`
	Validator string  `json:"validator"`
	Revision  int64   `json:"revision,omitempty"` // as in [Fact]
	CRC32     *uint32 `json:"crc32,omitempty"`    // if it was known
}

// planName is what the client asked to name a file.
type planName struct {
	Source   int    `json:"source"` // index
	Path     string `json:"path,omitempty"`
	FileName string `json:"fileName,omitempty"`
}

// planSkipped is an element of Sources that is not in the plan.
type planSkipped struct {
	Source int    `json:"source"` // index
	Reason string `json:"reason"`
	Absent bool   `json:"absent,omitempty"` // from all plans of the link: it had no export
}

const (
	maxPlanSize     = 1 << 20   // of the stored form
	maxNamedSkipped = 100       // in the manifest of a link
	maxAbsentSize   = 256 << 10 // of the sources in a plan that had no export
)

func (p *plan) encode() []byte {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // URLs have many ampersands
	if err := encoder.Encode(p); err != nil {
		panic(err) // a plan has only encodable fields
	}
	return data.Bytes()
}

// decodePlan returns a stored plan. The error is [ErrLinkNotFound] if another release has
// made it.
func decodePlan(data []byte) (*plan, error) {
	p := new(plan)
	err := json.Unmarshal(data, p)
	if err == nil && (p.Layout != planLayout && p.Layout != partLayout || len(p.Entries) == 0) {
		err = fmt.Errorf("exports: layout %d of a plan is unknown", p.Layout)
	}
	if err == nil {
		err = p.layOut()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLinkNotFound, err)
	}
	return p, nil
}

// skipped returns the skipped sources that the manifest names.
func (p *plan) skipped() []Skipped {
	var list []Skipped
	for _, s := range p.Skipped[:min(len(p.Skipped), maxNamedSkipped)] {
		list = append(list, Skipped{SourceURL: p.Sources[s.Source], Reason: s.Reason})
	}
	return list
}

func (p *plan) requested() int { return cmp.Or(p.Requested, len(p.Sources)) }

func (p *plan) layOut() (err error) {
	if !p.Zip || !p.Resumable {
		return nil
	}
	entries := make([]zipstream.Entry, len(p.Entries), len(p.Entries)+1)
	for i, e := range p.Entries {
		entries[i] = zipstream.Entry{Name: e.Name, Modified: time.Unix(e.Modified, 0), Size: e.Size, Streamed: e.Streamed}
	}
	if len(p.Skipped) > 0 {
		var entry zipstream.Entry
		entry, p.manifest = newManifest(time.UnixMilli(p.MadeAt).UTC(), p.requested(), len(p.Entries), p.skipped())
		entries = append(entries, entry)
	}
	p.archive, err = zipstream.NewArchive(entries)
	return err
}

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
	if previous != nil && p.MadeAt-previous.MadeAt < quickRenewal.Milliseconds() {
		p.countRenewals(previous)
	}
	if requested > len(p.Entries)+len(p.skipped()) {
		p.Layout, p.Requested = partLayout, requested
	}
	if !zip {
		p.FileName, p.Type, p.Size = path.Base(p.Entries[0].Name), files[0].file.Type, p.Entries[0].Size
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

// countRenewals counts a renewal of a resumable plan. That of another plan takes one back if
// all files have kept their validators.
func (p *plan) countRenewals(previous *plan) {
	p.Renewals = previous.Renewals
	if previous.Resumable {
		p.Renewals++
	} else if slices.EqualFunc(p.Entries, previous.Entries, func(a, b planEntry) bool { return a.Validator == b.Validator }) {
		p.Renewals = max(0, p.Renewals-1)
	}
	p.Resumable = p.Resumable && p.Renewals < maxRenewals
}

// addSource adds the source of an item, as JSON keeps it, and returns its index.
func (p *plan) addSource(item *BatchItem) int {
	i := len(p.Sources)
	p.Sources = append(p.Sources, strings.ToValidUTF8(item.SourceURL, "\uFFFD"))
	if item.Path != "" || item.FileName != "" {
		p.Names = append(p.Names, planName{i, item.Path, item.FileName})
	}
	return i
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

// describe asks the upstreams for the file of each item, several at a time and once for
// each URL. It asks again for a file whose validator is not that of the previous plan: one
// that differs in each response identifies nothing.
func (s *Service) describe(ctx context.Context, items []BatchItem, previous *plan) ([]*plannedFile, error) {
	files := make([]*plannedFile, len(items))
	byURL := make(map[string]*plannedFile)
	var distinct []*plannedFile
	var keys []filefacts.Key
	var hosts []string
	for i, item := range items {
		if errors.Is(item.Err, ErrUnavailable) {
			return nil, item.Err
		}
		if item.Err != nil {
			files[i] = &plannedFile{err: item.Err}
			continue
		}
		url := item.Export.ExportedURL
		f := byURL[url]
		if f == nil {
			f = &plannedFile{export: item.Export}
			byURL[url] = f
			distinct, keys, hosts = append(distinct, f), append(keys, factKey(url)), append(hosts, hostOf(url))
		}
		files[i] = f
	}
	if err := s.facts.Load(ctx, keys); err != nil {
		return nil, storeError("load facts", err)
	}
	if previous != nil {
		for i, e := range previous.Entries {
			if f := byURL[e.URL]; f != nil {
				f.previous = &previous.Entries[i]
			}
		}
	}
	errs := prefetch.Parallel(s.prefetch, hosts, func(i int) (err error) {
		f := distinct[i]
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
	for i, f := range distinct {
		if f.err = openError(errs[i], nil); f.err == nil {
			f.fact = s.fact(f.export.ExportedURL, f.file)
		}
	}
	return files, openError(ctx.Err(), nil)
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

// BatchName is the file name of a batch.
const BatchName = "canvas-exports.zip"

const manifestName = "manifest.json"

// newManifest returns the entry manifest.json and its content, which names the skipped
// items and counts the rest.
func newManifest(now time.Time, requested, included int, skipped []Skipped) (zipstream.Entry, []byte) {
	type item struct {
		SourceURL string `json:"sourceFileUrl"`
		Reason    string `json:"reason"`
	}
	items := make([]item, len(skipped))
	for i, s := range skipped {
		items[i] = item{s.SourceURL, s.Reason}
	}
	content, err := json.MarshalIndent(struct {
		GeneratedAt string `json:"generatedAt"`
		Requested   int    `json:"requested"`
		Included    int    `json:"included"`
		Skipped     []item `json:"skipped"`
		MoreSkipped int    `json:"moreSkipped,omitempty"`
	}{now.Format("2006-01-02T15:04:05.000Z"), requested, included, items, requested - included - len(items)}, "", "  ")
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	content = append(content, '\n')
	return zipstream.Entry{
		Name:     manifestName,
		Modified: now,
		Size:     int64(len(content)),
		CRC:      crc32.ChecksumIEEE(content),
	}, content
}
