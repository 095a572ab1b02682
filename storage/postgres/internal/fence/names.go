package fence

import (
	"regexp"
	"strconv"
	"strings"
)

// State is what a fence is worth on a server.
type State string

const (
	Off      State = "off"      // no commit waits for a standby
	Partial  State = "partial"  // a standby can be promoted that has not confirmed all commits
	Complete State = "complete" // all named standbys confirm each commit
)

var (
	// A list with a number, such as ANY 1 (a, b), or without one.
	namesSyntax = regexp.MustCompile(`(?is)^\s*(?:(?:first\s+|any\s+)?(\d+)\s*\((.*)\)|(.*))\s*$`)
	nameSyntax  = regexp.MustCompile(`"(?:[^"]|"")*"|[^\s,"]+`)
)

// stateOf returns the state of a server with the given synchronous_standby_names. The
// server has checked their syntax.
func stateOf(names string) State {
	if names == "" {
		return Off
	}
	match, confirming := namesSyntax.FindStringSubmatch(names), 1
	if match[1] != "" {
		confirming, _ = strconv.Atoi(match[1]) // digits that the server has accepted
	}
	named := make(map[string]bool)
	for _, name := range nameSyntax.FindAllString(match[2]+match[3], -1) { // one of both is empty
		if strings.HasPrefix(name, `"`) {
			name = strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
		}
		named[strings.ToLower(name)] = true
	}
	if confirming < len(named) || named["*"] {
		return Partial
	}
	return Complete
}
