package bundle

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"path"
	"slices"
	"strings"

	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/picture"
)

// drawioEntry is a symbol of a draw.io library: an image in data, or in the style of the
// cell of a diagram in xml.
type drawioEntry struct {
	Data   string   `json:"data,omitempty"`
	XML    string   `json:"xml,omitempty"`
	Width  *float64 `json:"w,omitempty"`
	Height *float64 `json:"h,omitempty"`
	Title  string   `json:"title,omitempty"`
	Tags   string   `json:"tags,omitempty"` // separated by blanks
	Aspect string   `json:"aspect,omitempty"`
}

func isDrawio(content []byte) bool {
	return beginsWith(content, "<") && bytes.Contains(content[:min(len(content), 1<<10)], []byte("<mxlibrary"))
}

// readDrawio adds the symbols of a draw.io library, a file of the given name. It reads them
// one after the other.
func (r *reader) readDrawio(file string, content []byte, folders []string) error {
	title, text := openDrawio(bytes.TrimPrefix(content, []byte("\ufeff")))
	if text == nil {
		return r.addSymbol(file, symbols.NewSymbol{}, fileError("broken draw.io library: it is not well-formed XML"))
	}
	entries := json.NewDecoder(text)
	start, err := entries.Token()
	for position := 1; err == nil && entries.More(); position++ {
		var entry drawioEntry
		err = entries.Decode(&entry)
		_, mistyped := errors.AsType[*json.UnmarshalTypeError](err)
		if err != nil && !mistyped {
			break
		}
		name := entry.Title
		if strings.TrimSpace(name) == "" {
			_, base := path.Split(file)
			name = fmt.Sprintf("%.240s %d", cmp.Or(strings.TrimSpace(title), stem(base), r.options.Name, r.options.Folder, "symbol"), position)
		}
		var picture image
		if mistyped {
			err = fileError("not an entry of a draw.io library: a value has the wrong type")
		} else {
			picture, err = r.drawioPicture(name, entry, folders)
		}
		if err = r.addPicture(name, picture, err); err != nil {
			return err
		}
	}
	if err == nil {
		_, err = entries.Token()
	}
	if err != nil || start != json.Delim('[') {
		return r.addSymbol(file, symbols.NewSymbol{}, fileError("broken draw.io library: it has no JSON array"))
	}
	return nil
}

// openDrawio returns the title of a library, and its JSON, or nil if there is none. A
// decoder of XML would have a copy of all the JSON in memory.
func openDrawio(content []byte) (title string, text io.Reader) {
	const maxTag = 64 << 10 // a decoder keeps 48 bytes for each attribute
	decoder := xml.NewDecoder(bytes.NewReader(content[:min(len(content), maxTag)]))
	decoder.Strict = false // some do not escape "&"
	var root xml.StartElement
	for root.Name.Local == "" {
		token, err := decoder.Token()
		if err != nil {
			return "", nil
		}
		root, _ = token.(xml.StartElement)
	}
	for _, attribute := range root.Attr {
		if attribute.Name.Local == "title" {
			title = attribute.Value
		}
	}
	body := bytes.TrimSpace(content[decoder.InputOffset():])
	end := bytes.LastIndex(body, []byte("</mxlibrary"))
	if end < 0 {
		return "", nil
	}
	if raw, isRaw := bytes.CutPrefix(body[:end], []byte("<![CDATA[")); isRaw {
		return title, bytes.NewReader(bytes.TrimSuffix(bytes.TrimSpace(raw), []byte("]]>")))
	}
	return title, &unescaper{rest: body[:end]}
}

// unescaper reads escaped text. It also accepts text in which "&" is not escaped, as in the
// titles of some libraries.
type unescaper struct {
	rest  []byte
	ready string // already unescaped
}

func (u *unescaper) Read(p []byte) (int, error) {
	const size = 32 << 10
	if u.ready == "" {
		end := len(u.rest)
		if end > size {
			end = cmp.Or(max(bytes.LastIndexByte(u.rest[:size], '&'), 0), size) // no reference is cut
		}
		u.ready, u.rest = html.UnescapeString(string(u.rest[:end])), u.rest[end:]
	}
	n := copy(p, u.ready)
	if u.ready = u.ready[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *reader) drawioPicture(name string, entry drawioEntry, folders []string) (image, error) {
	source := entry.Data
	if source == "" {
		diagram, err := r.inflateDiagram(entry.XML)
		if err != nil {
			return image{}, err
		}
		source = imageOfStyle(diagram)
	}
	content, ok := decodeImage(source)
	if !ok {
		return image{}, fileError("not an image: draw.io would have to draw it")
	}
	lineBreak := []byte("&#xa;") // some SVGs are escaped twice
	if mimeType, _ := picture.Sniff(content); mimeType == picture.SVG && bytes.Contains(content, lineBreak) {
		if _, _, err := picture.Size(mimeType, content); err != nil {
			content = bytes.ReplaceAll(content, lineBreak, []byte("\n"))
		}
	}
	if len(entry.Tags) > 16<<10 {
		return image{}, fileError("too many tags")
	}
	i := image{name: name, content: content, tags: slices.Concat(folders, strings.Fields(entry.Tags))}
	if entry.Width != nil && entry.Height != nil {
		i.meta = map[string]any{"width": *entry.Width, "height": *entry.Height}
	}
	return i, nil
}

// inflateDiagram returns the XML of a diagram, which may be escaped once more, or base64 of
// DEFLATE of percent-encoded text.
func (r *reader) inflateDiagram(text string) (string, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "&lt;") {
		text = html.UnescapeString(text)
	}
	if strings.HasPrefix(text, "<") {
		return text, nil
	}
	compressed := base64.NewDecoder(base64.StdEncoding, strings.NewReader(text))
	limit := min(r.remaining, r.dataRemaining) // the symbol has the image of the diagram
	var encoded strings.Builder
	size, err := io.Copy(&encoded, io.LimitReader(flate.NewReader(compressed), limit+1))
	r.remaining -= size
	if err != nil {
		return "", fileError("broken diagram")
	}
	if size > limit {
		return "", tooLarge("the library is too large: its diagrams are too large when decompressed")
	}
	return picture.Unescape(encoded.String()), nil
}

// imageOfStyle returns the data URL in the style of the only cell with one, or "".
func imageOfStyle(diagram string) string {
	const start = "image=data:"
	_, rest, _ := strings.Cut(diagram, start)
	if strings.Contains(rest, start) {
		return "" // several images
	}
	end := strings.IndexAny(rest, `;"'<`)
	if end < 0 {
		return ""
	}
	return "data:" + html.UnescapeString(rest[:end])
}

// decodeImage returns the content of a data URL. In draw.io, base64 needs no ";base64".
func decodeImage(dataURL string) ([]byte, bool) {
	named, body, hasBody := strings.Cut(dataURL, ",")
	named = strings.ToLower(strings.TrimSpace(named))
	if !hasBody || !strings.HasPrefix(named, "data:") {
		return nil, false
	}
	body = picture.Unescape(body)
	content, ok := picture.DecodeBase64(body)
	if !ok && !strings.Contains(named, ";base64") {
		return []byte(body), true
	}
	return content, ok
}

// WriteDrawio writes the symbols of a folder to w as a draw.io library, page by page as
// [Write] does. Symbols whose data has no picture, see [picture.Find], are left out.
func WriteDrawio(w io.Writer, pages func(after int64) (symbols.Page, error)) error {
	separator := "<mxlibrary>["
	err := each(pages, func(symbol symbols.Symbol) error {
		found, ok := picture.Find(symbol.Data)
		if !ok {
			return nil
		}
		entry := drawioEntry{
			Data:  "data:" + found.Type + ";base64," + base64.StdEncoding.EncodeToString(found.Content),
			Title: symbol.Name, Tags: strings.Join(symbol.Tags.List(), " "), Aspect: "fixed",
		}
		if width, height, err := picture.Size(found.Type, found.Content); err == nil {
			entry.Width, entry.Height = &width, &height
		}
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		separator = ","
		text := bytes.ReplaceAll(encodeJSON(entry), []byte("\ufffe"), []byte(`\ufffe`)) // XML has neither
		return xml.EscapeText(w, bytes.ReplaceAll(text, []byte("\uffff"), []byte(`\uffff`)))
	})
	if err != nil {
		return err
	}
	end := "]</mxlibrary>\n"
	if separator != "," {
		end = separator + end
	}
	_, err = io.WriteString(w, end)
	return err
}
