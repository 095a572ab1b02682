package symbols

import "strings"

// Contains reports whether a name contains text as in [Service.Search].
func Contains(name, text string) bool { return strings.Contains(fold(name), fold(text)) }
