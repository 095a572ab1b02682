package linkserve

import (
	"net/http"
	"strings"
)

// loopID names this library in the header CDN-Loop. Package fetch sends it.
const loopID = "canvasback"

// IsFetch reports whether a server of this library requests an exported file (RFC
// 8586, section 2). A link could otherwise be the file of an export in it.
func IsFetch(header http.Header) bool {
	for _, value := range header.Values("CDN-Loop") {
		for element := range strings.SplitSeq(value, ",") {
			id, _, _ := strings.Cut(element, ";")
			if strings.EqualFold(strings.TrimSpace(id), loopID) {
				return true
			}
		}
	}
	return false
}
