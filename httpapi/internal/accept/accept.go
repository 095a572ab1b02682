// Package accept evaluates what a request accepts.
package accept

import (
	"net/http"
	"strconv"
	"strings"
)

// Gzip reports whether Accept-Encoding (RFC 9110, section 12.5.3) allows
// gzip and does not prefer no encoding. It ignores malformed elements.
func Gzip(header http.Header) bool {
	const absent = -1
	gzip, identity, others := float64(absent), float64(absent), float64(absent)
	for _, line := range header["Accept-Encoding"] {
		for element := range strings.SplitSeq(line, ",") {
			coding, parameter, weighted := strings.Cut(element, ";")
			var weight *float64
			switch strings.ToLower(strings.Trim(coding, " \t")) {
			case "gzip", "x-gzip":
				weight = &gzip
			case "identity":
				weight = &identity
			case "*":
				weight = &others
			}
			if weight == nil || *weight != absent {
				continue
			}
			if !weighted {
				*weight = 1
			} else if parsed, ok := parseWeight(parameter); ok {
				*weight = parsed
			}
		}
	}
	weightOf := func(weight float64) float64 {
		if weight == absent {
			return max(others, 0)
		}
		return weight
	}
	return weightOf(gzip) > 0 && weightOf(gzip) >= weightOf(identity)
}

// parseWeight parses the weight of an element, such as q=0.5.
func parseWeight(parameter string) (float64, bool) {
	name, text, _ := strings.Cut(strings.Trim(parameter, " \t"), "=")
	if !strings.EqualFold(name, "q") || len(text) == 0 || len(text) > len("0.000") ||
		strings.Trim(text, "0123456789.") != "" || len(text) > 1 && text[1] != '.' {
		return 0, false
	}
	weight, err := strconv.ParseFloat(text, 64)
	return weight, err == nil && weight <= 1
}
