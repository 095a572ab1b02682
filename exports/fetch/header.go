package fetch

import (
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// checkContentEncoding rejects content codings: the request accepts none, and the
// size of the decoded file would be unknown.
func checkContentEncoding(response *http.Response) error {
	for _, coding := range response.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return fmt.Errorf("unexpected Content-Encoding %q", coding)
		}
	}
	return nil
}

// fileName returns the file name of a Content-Disposition header, preferring
// filename* (RFC 6266, section 4.3). It returns the empty string if there is none.
func fileName(disposition string) string {
	_, parameters, err := mime.ParseMediaType(disposition)
	if err == nil {
		return parameters["filename"]
	}
	if match := looseFileName.FindStringSubmatch(disposition); match != nil {
		return match[1]
	}
	return ""
}

// looseFileName matches a file name in a malformed header, most often one that
// contains spaces without quotes.
var looseFileName = regexp.MustCompile(`(?i)\bfilename\s*=\s*"?([^";]*)`)

// entityTag returns tag if it is well-formed (RFC 9110, section 8.8.3), and the
// empty string otherwise.
func entityTag(tag string) string {
	opaque, _ := strings.CutPrefix(tag, "W/")
	if len(opaque) < 2 || opaque[0] != '"' || strings.IndexByte(opaque[1:], '"') != len(opaque)-2 {
		return ""
	}
	return tag
}

// parseTime returns the zero Time if text is not an HTTP date.
func parseTime(text string) time.Time {
	t, err := http.ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// parseDigits parses a number without a sign.
func parseDigits(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}
