// Package picture finds the image in the data of a symbol, and the size of an image.
//
// For [Find] the data is an SVG document, a data URL, or a JSON object as viewers write it,
// whose field content is base64 or a data URL. The bytes determine the type of the
// image (WHATWG MIME Sniffing, section 6.1); a type that the data URL or the JSON
// object names must agree.
package picture

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Picture is an image.
type Picture struct {
	Type      string // such as image/png
	Extension string // with a dot
	Content   []byte
}

// Find returns the image in the data of a symbol, and false if there is none. It converts an
// SVG by [ToUTF8].
func Find(data string) (Picture, bool) {
	switch text := strings.TrimLeft(data, " \t\r\n\ufeff"); {
	case strings.HasPrefix(text, "<"):
		return newPicture([]byte(data), "")
	case hasDataScheme(text):
		return fromURL(text, "")
	case strings.HasPrefix(text, "{"):
		return fromJSON(text)
	}
	return Picture{}, false
}

func fromJSON(text string) (Picture, bool) {
	var object struct {
		Type    string  `json:"type"`
		Content *string `json:"content"`
	}
	// The decoder would remember all names to find repeated ones, and reject the half of an
	// emoji that JavaScript may leave at the end of a name.
	err := json.Unmarshal([]byte(text), &object, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil || object.Content == nil {
		return Picture{}, false
	}
	if hasDataScheme(strings.TrimLeft(*object.Content, " \t\r\n")) {
		return fromURL(*object.Content, object.Type)
	}
	content, ok := DecodeBase64(*object.Content)
	if !ok {
		return Picture{}, false
	}
	return newPicture(content, object.Type)
}

func hasDataScheme(text string) bool {
	return len(text) >= len("data:") && strings.EqualFold(text[:len("data:")], "data:")
}

var base64Suffix = regexp.MustCompile(`(?i); *base64$`)

// fromURL returns the image in a data URL (Fetch standard, section 6). The type
// outside must be that of the image, too, unless it is empty.
func fromURL(text, outside string) (Picture, bool) {
	text = strings.TrimFunc(text, func(r rune) bool { return r <= ' ' }) // URL standard, section 4.4
	text = strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(text)
	text, _, _ = strings.Cut(text, "#")
	named, body, _ := strings.Cut(text[len("data:"):], ",")
	named = strings.Trim(named, " \f")
	body = Unescape(body)
	content, decoded := []byte(body), true
	if base64Suffix.MatchString(named) {
		content, decoded = DecodeBase64(body)
	}
	picture, ok := newPicture(content, named)
	return picture, ok && decoded && agrees(picture.Type, outside)
}

var percentEncoded = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// Unescape decodes percent-encoding as URLs do. It leaves malformed sequences as they are.
func Unescape(text string) string {
	if decoded, err := url.PathUnescape(text); err == nil { // much faster
		return decoded
	}
	return percentEncoded.ReplaceAllStringFunc(text, func(sequence string) string {
		decoded, _ := hex.DecodeString(sequence[1:]) // always valid
		return string(decoded)
	})
}

var base64Spaces = strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "", "\f", "")

// DecodeBase64 is the forgiving-base64 decode of the Infra standard, section 7: it ignores
// white space, and padding may be absent.
func DecodeBase64(text string) ([]byte, bool) {
	text = base64Spaces.Replace(text)
	if len(text)%4 == 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	}
	content, err := base64.RawStdEncoding.DecodeString(text)
	return content, err == nil
}

// newPicture returns the image with a content whose type agrees with the named one.
func newPicture(content []byte, named string) (Picture, bool) {
	format := sniff(content)
	if format == nil {
		return Picture{}, false
	}
	if format.mimeType == SVG {
		content = ToUTF8(content)
		if _, _, err := svgSize(content); err != nil {
			return Picture{}, false
		}
	}
	return Picture{format.mimeType, format.extension, content}, agrees(format.mimeType, named)
}

// aliases are other names of the types of images.
var aliases = map[string]string{
	"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg",
	"image/vnd.microsoft.icon": "image/x-icon", "image/ico": "image/x-icon", "image/icon": "image/x-icon",
	"image/x-ms-bmp": "image/bmp", "image/x-bmp": "image/bmp", "image/x-windows-bmp": "image/bmp",
}

// agrees reports whether a named type is the given one, or empty.
func agrees(mimeType, named string) bool {
	essence, _, _ := strings.Cut(named, ";")
	essence = strings.ToLower(strings.TrimSpace(essence))
	return essence == "" || essence == mimeType || aliases[essence] == mimeType
}
