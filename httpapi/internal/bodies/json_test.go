package bodies

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

// reflectedJSON returns the JSON that reflection makes of a value.
func reflectedJSON(t *testing.T, value any) string {
	t.Helper()
	body, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true))
	is.New(t).NoErr(err)
	return string(body)
}

// TestEncodedSize_IsSufficient: appending to a buffer that is too small copies it.
func TestEncodedSize_IsSufficient(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		"plain text",
		`{"name":"Gate valve","content":"PHN2Zy8+"}`,
		`{"svg":"<path d=\"M0 0\" stroke=\"#000\"/>"}`, // JSON in JSON
		`\\server\share\valve.svg`,
	} {
		symbol := symbols.Symbol{ID: 1, Name: "Gate valve", Type: "application/json", Data: strings.Repeat(data, 1000), FolderID: 1}
		estimate, size := encodedSize(symbol.Name, symbol.Type, symbol.Data), len(AppendFields(nil, symbol, AllFields))
		if estimate < size || estimate > size+200 {
			t.Errorf("%s, 1000 times: estimated size %d, actual size %d", data, estimate, size)
		}
	}
}

func FuzzAppendFields(f *testing.F) {
	var ascii strings.Builder
	for c := range 128 {
		ascii.WriteByte(byte(c))
	}
	f.Add(int64(1), "Gate valve", "image/svg+xml", `{"name":"Gate valve","content":"PHN2Zy8+"}`)
	f.Add(int64(1<<62), ascii.String(), "ä\u2028\u2029\u2030🦆", "\xff\xfe\xed\xa0\x80")
	f.Add(int64(2), strings.Repeat(`"`, 200), strings.Repeat("\x00\n", 200), strings.Repeat("a\n\tä\"", 200))
	f.Add(int64(-1), "\ufffd", "a\xc3", "<>&'\x7f\u0080")
	f.Fuzz(func(t *testing.T, id int64, name, mimeType, data string) {
		is := is.New(t)
		got := string(AppendFields(nil, symbols.Symbol{ID: id, Name: name, Type: mimeType, Data: data, FolderID: -id}, AllFields))
		want := reflectedJSON(t, struct {
			ID       int64  `json:"id"`
			Name     string `json:"name"`
			Type     string `json:"type"`
			Data     string `json:"data"`
			FolderID int64  `json:"folderId"`
		}{id, name, mimeType, data, -id})
		is.Equal(got, want)
		got = string(AppendFolder(nil, symbols.Folder{ID: id, Name: name}))
		want = reflectedJSON(t, struct {
			ID   int64  `json:"id"`
			Name string `json:"name"`
		}{id, name})
		is.Equal(got, want)
	})
}

// BenchmarkAppendString compares with jsontext.AppendQuote.
func BenchmarkAppendString(b *testing.B) {
	for name, text := range map[string]string{
		"JSON":  strings.Repeat(`{"type":"line","x1":12.5,"y":[1,2,3]},`, 100),
		"SVG":   strings.Repeat("<path d=\"M12 3 L 4 5\" stroke=\"black\"/>\n", 100),
		"plain": strings.Repeat("0123456789abcdef", 250),
	} {
		b.Run(name, func(b *testing.B) {
			buffer := make([]byte, 0, 2*len(text))
			var own, baseline time.Duration
			for b.Loop() {
				start := time.Now()
				AppendString(buffer, text)
				middle := time.Now()
				jsontext.AppendQuote(buffer, text)
				own, baseline = own+middle.Sub(start), baseline+time.Since(middle)
			}
			b.ReportMetric(float64(baseline)/float64(own), "x-as-fast")
		})
	}
}

func TestAppendTime_IsRFC3339WithMilliseconds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, text := range []string{
		"0001-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "2026-02-28T12:34:56.007Z", "2026-11-27T00:00:00.120Z", "9999-12-31T23:59:59.999Z",
	} {
		at, err := time.Parse(time.RFC3339, text)
		is.NoErr(err)
		is.Equal(string(AppendTime([]byte("at "), at)), "at "+text)
		is.Equal(string(AppendTime(nil, at.Add(999*time.Microsecond).In(time.FixedZone("", 3600)))), text)
	}
}
