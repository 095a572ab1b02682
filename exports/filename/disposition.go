package filename

import "strings"

// Disposition returns a Content-Disposition (RFC 6266, section 4) with a clean file
// name. Clients without support for filename* get the name with an underscore for
// each character that is not ASCII, and for each percent sign before two hexadecimal
// digits, which some browsers decode (RFC 6266, appendix D).
func Disposition(kind, name string) string {
	var ascii, extended strings.Builder
	for i, r := range name {
		switch {
		case r == '"' || r == '\\' || isPercentEscape(name[i:]):
			ascii.WriteByte('_')
		case ' ' <= r && r <= '~':
			ascii.WriteByte(byte(r))
		default:
			ascii.WriteByte('_')
		}
	}
	value := kind + `; filename="` + ascii.String() + `"`
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

// isPercentEscape reports whether text begins with a percent sign and two hexadecimal
// digits.
func isPercentEscape(text string) bool {
	return len(text) > 2 && text[0] == '%' && isHexDigit(text[1]) && isHexDigit(text[2])
}

func isHexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'F' || 'a' <= c && c <= 'f'
}

// attributeChar reports whether an extended value contains c unescaped (RFC 8187,
// section 3.2.1).
func attributeChar(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' ||
		strings.IndexByte("!#$&+-.^_`|~", c) >= 0
}
