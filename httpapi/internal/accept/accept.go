// Package accept evaluates what a request accepts.
package accept

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Gzip reports whether Accept-Encoding (RFC 9110, section 12.5.3) allows
// gzip and does not prefer no encoding. It ignores malformed elements.
func Gzip(header http.Header) bool {
	line := strings.Join(header["Accept-Encoding"], ",")
	others := weight(line, 0, "*")
	gzip := weight(line, others, "gzip", "x-gzip")
	return gzip > 0 && gzip >= weight(line, others, "identity")
}

// parameter matches the weight of an element, such as q=0.5 (section 12.4.2).
var parameter = regexp.MustCompile(`^[ \t]*[Qq]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)[ \t]*$`)

// weight returns the weight of the first element with one of the names of a coding, or
// absent if there is none.
func weight(line string, absent float64, names ...string) float64 {
	for element := range strings.SplitSeq(line, ",") {
		coding, given, weighted := strings.Cut(element, ";")
		if !slices.Contains(names, strings.ToLower(strings.Trim(coding, " \t"))) {
			continue
		}
		if !weighted {
			return 1
		}
		if match := parameter.FindStringSubmatch(given); match != nil {
			q, _ := strconv.ParseFloat(match[1], 64)
			return q
		}
	}
	return absent
}
