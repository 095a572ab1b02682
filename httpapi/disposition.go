package httpapi

import "strings"

// disposition returns a Content-Disposition for a download under a clean file
// name (RFC 6266, section 4). Readers that know no filename* get the name with
// its other characters replaced.
func disposition(name string) string {
	var ascii, extended strings.Builder
	for _, r := range name {
		switch {
		case r == '"' || r == '\\':
			ascii.WriteByte('_')
		case ' ' <= r && r <= '~':
			ascii.WriteByte(byte(r))
		default:
			ascii.WriteByte('_')
		}
	}
	value := `attachment; filename="` + ascii.String() + `"`
	if ascii.String() == name {
		return value
	}
	const hex = "0123456789ABCDEF"
	for i := range len(name) {
		if c := name[i]; attributeChar(c) {
			extended.WriteByte(c)
		} else {
			extended.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return value + `; filename*=UTF-8''` + extended.String()
}

// attributeChar reports whether c stands for itself in an extended value
// (RFC 8187, section 3.2.1).
func attributeChar(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' ||
		strings.IndexByte("!#$&+-.^_`|~", c) >= 0
}
