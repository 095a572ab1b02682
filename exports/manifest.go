package exports

import (
	"encoding/json"
	"hash/crc32"
	"time"

	"example.com/canvasback/exports/internal/zipstream"
)

// newManifest returns the entry manifest.json and its content.
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
	}{now.Format("2006-01-02T15:04:05.000Z"), requested, included, items}, "", "  ")
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
