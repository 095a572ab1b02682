package exports

import (
	"encoding/json"
	"time"
)

// manifest is the content of the entry manifest.json.
type manifest struct {
	GeneratedAt time.Time
	Requested   int // items
	Included    int // files
	Skipped     []Skipped
}

func (m manifest) encode() []byte {
	type skipped struct {
		SourceURL string `json:"sourceFileUrl"`
		Reason    string `json:"reason"`
	}
	list := make([]skipped, len(m.Skipped))
	for i, s := range m.Skipped {
		list[i] = skipped{s.SourceURL, s.Reason}
	}
	content, err := json.MarshalIndent(struct {
		GeneratedAt string    `json:"generatedAt"`
		Requested   int       `json:"requested"`
		Included    int       `json:"included"`
		Skipped     []skipped `json:"skipped"`
	}{m.GeneratedAt.Format("2006-01-02T15:04:05.000Z"), m.Requested, m.Included, list}, "", "  ")
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return append(content, '\n')
}
