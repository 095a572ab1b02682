package exports

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// MaxAddress is the longest source address, exported address and file name in
// Unicode code points.
const MaxAddress = 8192

// checkText accepts what every store can keep, up to MaxAddress code points.
func checkText(field, text string) error {
	switch {
	case !utf8.ValidString(text):
		return invalid(field + " must be valid UTF-8")
	case strings.ContainsRune(text, 0):
		return invalid(field + " must not contain a NUL character")
	case utf8.RuneCountInString(text) > MaxAddress:
		return invalid(fmt.Sprintf("%s must have at most %d characters", field, MaxAddress))
	}
	return nil
}

// checkSource returns a source address without the white space around it.
func checkSource(field, source string) (string, error) {
	source = strings.TrimSpace(source)
	if source == "" {
		return "", invalid(field + " must not be empty")
	}
	return source, checkText(field, source)
}

// parseExported reads the address of an exported file. Whether it is allowed
// is for an [Opener] to say.
func parseExported(address string) (*url.URL, error) {
	const field = "exportedUrl"
	if address == "" {
		return nil, invalid(field + " must not be empty")
	}
	if err := checkText(field, address); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Opaque != "", u.Host == "":
		return nil, invalid(field + " must be an absolute http or https address")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalid(field + " must be an http or https address")
	case u.User != nil:
		return nil, invalid(field + " must not carry a user or password")
	}
	return u, nil
}
