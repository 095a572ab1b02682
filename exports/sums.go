package exports

import (
	"io"
	"time"

	"example.com/canvasback/exports/internal/checksum"
)

// recordSums makes a download add to the facts about its file while it is read.
func (s *Service) recordSums(export Export, d *Download, inZip bool) {
	file := cleanFile(d.File)
	d.fact = s.facts.confirm(export.ExportedURL, &file)
	if d.fact == nil {
		return
	}
	if _, known := d.fact.sums.Total(); known || d.local && !inZip {
		return // the kernel can copy a local file then
	}
	d.Body = &summedBody{d.Body, s.facts, d.fact, d.fact.sums.Writer(0, d.Size), false, time.Now().Add(saveInterval)}
}

// summedBody is the body of a complete download. It adds the sums of what is read to
// the file's fact, until they differ from an earlier read.
type summedBody struct {
	io.ReadCloser
	facts    *facts
	fact     *fileFact
	sums     *checksum.Writer
	differs  bool
	nextSave time.Time
}

// Read implements [io.Reader].
func (b *summedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.differs {
		return n, err
	}
	if _, sumErr := b.sums.Write(p[:n]); sumErr != nil {
		b.differs = true
		b.facts.disprove(b.fact)
		return n, err
	}
	if now := time.Now(); now.After(b.nextSave) {
		b.nextSave = now.Add(saveInterval)
		b.facts.save(b.fact)
	}
	return n, err
}

// Close closes the file and stores the sums of what was read.
func (b *summedBody) Close() error {
	b.sums.Close()
	b.facts.save(b.fact)
	return b.ReadCloser.Close()
}
