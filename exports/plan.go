package exports

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/zipstream"
)

// planLayout is raised when the bytes of an archive change for equal plans.
const planLayout = 2

// plan describes the bytes of a link. It is stored as JSON and never changes; a
// link gets another plan instead. All bytes except CRCs follow from it, and those
// follow from the validators.
type plan struct {
	Layout    int           `json:"layout"`
	Zip       bool          `json:"zip"`
	Sources   []string      `json:"sources"` // as requested
	MadeAt    int64         `json:"madeAt"`  // Unix milliseconds
	FileName  string        `json:"fileName"`
	Type      string        `json:"type,omitempty"` // of a single file
	Resumable bool          `json:"resumable"`
	Size      int64         `json:"size"` // -1 if unknown
	Entries   []planEntry   `json:"entries"`
	Skipped   []planSkipped `json:"skipped,omitempty"`

	// Renewals is how many plans came before, each within quickRenewal.
	Renewals int `json:"renewals,omitempty"`

	// Outdated means that the plan cannot be delivered, and that the next
	// request must replace it.
	Outdated bool `json:"outdated,omitempty"`
}

// planEntry is a file of a plan.
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

// planSkipped is an element of Sources that is not in the plan.
type planSkipped struct {
	Source int    `json:"source"` // index
	Reason string `json:"reason"`
}

// A link that has been renewed maxRenewals times, each time within quickRenewal, has
// a file whose validator keeps changing. It is not resumable until that ends.
const (
	maxRenewals  = 8
	quickRenewal = 10 * time.Minute
)

// maxPlanSize bounds the stored form of a plan.
const maxPlanSize = 4 << 20

// encode returns the stored form of a plan. The error matches [ErrInvalid] if that is
// too large.
func (p *plan) encode() ([]byte, error) {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // URLs have many ampersands
	if err := encoder.Encode(p); err != nil {
		panic(err) // a plan has only encodable fields
	}
	if data.Len() > maxPlanSize {
		return nil, invalid("items are too long for a link")
	}
	return data.Bytes(), nil
}

// planETag returns the entity tag of a stored plan. It includes the version, so
// that a plan which replaces an equal one has another tag.
func planETag(data []byte, version int64) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(version)))
	h.Write(data)
	return `"` + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18]) + `"`
}

// decodePlan returns a stored plan. The error means that another release has made it.
func decodePlan(data []byte) (*plan, error) {
	p := new(plan)
	if err := json.Unmarshal(data, p); err != nil {
		return nil, err
	}
	if p.Layout != planLayout || len(p.Entries) == 0 {
		return nil, fmt.Errorf("exports: layout %d of a plan is unknown", p.Layout)
	}
	return p, nil
}

// skipped returns the skipped sources.
func (p *plan) skipped() []Skipped {
	var list []Skipped
	for _, s := range p.Skipped {
		list = append(list, Skipped{SourceURL: p.Sources[s.Source], Reason: s.Reason})
	}
	return list
}

// archive returns the layout of the zip, and the content of manifest.json, which is
// nil without one.
func (p *plan) archive() (*zipstream.Archive, []byte, error) {
	entries := make([]zipstream.Entry, len(p.Entries), len(p.Entries)+1)
	for i, e := range p.Entries {
		entries[i] = zipstream.Entry{Name: e.Name, Modified: time.Unix(e.Modified, 0), Size: e.Size, Streamed: e.Streamed}
	}
	var manifest []byte
	if len(p.Skipped) > 0 {
		var entry zipstream.Entry
		entry, manifest = newManifest(time.UnixMilli(p.MadeAt).UTC(), len(p.Sources), len(p.Entries), p.skipped())
		entries = append(entries, entry)
	}
	archive, err := zipstream.NewArchive(entries)
	return archive, manifest, err
}

// plannedFile is the description of an item's file, or the reason to skip it.
type plannedFile struct {
	file *File // without Body
	fact *filefacts.Fact
	err  error
}

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
	if !zip {
		if err := files[0].err; err != nil {
			return nil, files, err
		}
	}
	p := &plan{Layout: planLayout, Zip: zip, MadeAt: s.now().UnixMilli(), FileName: BatchName, Resumable: true, Size: -1}
	if previous != nil && p.MadeAt-previous.MadeAt < quickRenewal.Milliseconds() {
		p.Renewals = previous.Renewals + 1
		p.Resumable = p.Renewals < maxRenewals
	}
	names := filename.NewDedup(manifestName)
	var skipped []Skipped
	for i, item := range items {
		p.Sources = append(p.Sources, item.SourceURL)
		f := files[i]
		if f.err != nil {
			skip := newSkipped(item.SourceURL, f.err)
			skipped = append(skipped, skip)
			p.Skipped = append(p.Skipped, planSkipped{i, skip.Reason})
			continue
		}
		p.add(*item.Export, f, names)
	}
	if len(p.Entries) == 0 {
		return nil, files, &BatchError{Skipped: skipped, Err: batchError(skipped)}
	}
	if !zip {
		p.FileName, p.Type, p.Size = deliveryName(*items[0].Export, files[0].file), files[0].file.Type, p.Entries[0].Size
		p.Entries[0].Modified = files[0].file.Modified.Unix()
	} else if p.Resumable {
		archive, _, err := p.archive()
		if err != nil {
			return nil, files, fmt.Errorf("%w: %w", ErrFailed, err)
		}
		p.Size = archive.Size()
	}
	return p, files, nil
}

// add adds the file of an export.
func (p *plan) add(export Export, f plannedFile, names *filename.Dedup) {
	e := zipEntry(export, f.file, f.fact, names)
	entry := planEntry{URL: export.ExportedURL, Name: e.Name, Modified: e.Modified.Unix(), Size: e.Size, Streamed: e.Streamed}
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

// zipEntry describes the zip entry of a file. The fact may be nil.
func zipEntry(export Export, file *File, f *filefacts.Fact, names *filename.Dedup) zipstream.Entry {
	entry := zipstream.Entry{Name: names.Unique(deliveryName(export, file)), Modified: file.Modified, Size: file.Size, Streamed: true}
	if entry.Modified.IsZero() { // the same in each download
		entry.Modified = export.UpdatedAt
	}
	if f != nil {
		crc, known := f.CRC()
		entry.CRC, entry.Streamed = crc, !known
	}
	return entry
}
