package exports

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// MaxURLLength bounds source URLs, exported URLs and file names, in Unicode code
// points.
const MaxURLLength = 8192

// checkText rejects text that some stores cannot hold.
func checkText(field, text string) error {
	switch {
	case !utf8.ValidString(text):
		return invalid(field + " must be valid UTF-8")
	case strings.ContainsRune(text, 0):
		return invalid(field + " must not contain a NUL character")
	case utf8.RuneCountInString(text) > MaxURLLength:
		return invalid(fmt.Sprintf("%s must have at most %d characters", field, MaxURLLength))
	}
	return nil
}

// parseExported parses the URL of an exported file. An [Opener] decides whether
// it is allowed.
func parseExported(exported string) (*url.URL, error) {
	const field = "exportedUrl"
	if exported == "" {
		return nil, invalid(field + " must not be empty")
	}
	if err := checkText(field, exported); err != nil {
		return nil, err
	}
	u, err := url.Parse(exported)
	switch {
	case err != nil, u.Opaque != "", u.Host == "", u.Scheme == "":
		return nil, invalid(field + " must be an absolute URL, such as https://...")
	case u.User != nil:
		return nil, invalid(field + " must not contain a user or password")
	}
	return u, nil
}
