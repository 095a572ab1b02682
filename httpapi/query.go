package httpapi

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"example.com/canvasback/httpapi/internal/bodies"
)

// query is the query of a request, in order. Unlike [url.Values] it keeps what is
// malformed, because parameters that a route does not know are ignored.
type query []parameter

type parameter struct{ name, value, raw string }

func (c *call) query() query { return parseQuery(c.r.URL.RawQuery) }

func parseQuery(text string) query {
	var q query
	for raw := range strings.SplitSeq(text, "&") {
		if raw == "" {
			continue
		}
		name, value, _ := strings.Cut(raw, "=")
		if unescaped, err := url.QueryUnescape(name); err == nil {
			name = unescaped
		}
		q = append(q, parameter{name, value, raw})
	}
	return q
}

// get returns the value of a parameter, and whether the request has it. The error
// of a repeated or malformed one begins with its name.
func (q query) get(name string) (value string, ok bool, err error) {
	for _, p := range q {
		switch {
		case p.name != name:
			continue
		case ok:
			return "", false, invalidRequest(name + " must not be repeated")
		}
		if value, err = url.QueryUnescape(p.value); err != nil {
			return "", false, invalidRequest(name + " is malformed")
		}
		ok = true
	}
	return value, ok, nil
}

// pointer returns the value of a parameter, or nil if the request does not have it.
func (q query) pointer(name string) (*string, error) {
	value, ok, err := q.get(name)
	if !ok {
		return nil, err
	}
	return &value, nil
}

// number returns a parameter that is a whole number from least to most, or zero
// if the request does not have it.
func (q query) number(name string, least, most int64) (int64, error) {
	text, ok, err := q.get(name)
	if err != nil || !ok {
		return 0, err
	}
	n, ok := parseNumber(text)
	if !ok || n < least || n > most {
		return 0, invalidRequest(fmt.Sprintf("%s must be a whole number from %d to %d", name, least, most))
	}
	return n, nil
}

func parseNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text // ParseInt accepts signs and leading zeros
}

// choice returns a parameter that is one of the values, or "" if it is absent or empty.
func (q query) choice(name string, values ...string) (string, error) {
	value, _, err := q.get(name)
	if err == nil && value != "" && !slices.Contains(values, value) {
		err = invalidRequest(name + ` must be "` + strings.Join(values, `", "`) + `" or absent`)
	}
	return value, err
}

// flag returns a parameter that is true, false or absent.
func (q query) flag(name string) (bool, error) {
	value, err := q.choice(name, "true", "false")
	return value == "true", err
}

const (
	maxPageSize     = 1000 // the maximum of the parameter limit
	defaultPageSize = 100  // of lists that always have a limit
)

// page selects records of a list: at most Limit, all if it is zero, with ids above
// After. It can be converted to the ranges of the services.
type page struct {
	After int64
	Limit int
}

func (c *call) page() (page, error) {
	q := c.query()
	limit, err := q.number("limit", 1, maxPageSize)
	if err != nil {
		return page{}, err
	}
	after, err := q.number("after", 0, 1<<63-1)
	return page{after, int(limit)}, err
}

// fields returns the parameter fields, or zero if the request does not have it.
func (c *call) fields() (bodies.Fields, error) {
	text, ok, err := c.query().get("fields")
	if err != nil || !ok {
		return 0, err
	}
	fields, ok := bodies.ParseFields(text)
	if !ok {
		return 0, invalidRequest("fields must be different names, separated by commas: " + strings.Join(bodies.FieldNames(), ", "))
	}
	return fields, nil
}

// setLink adds the Link to the page after the one that ends with the id last (RFC
// 8288). It keeps the other parameters of the request.
func (c *call) setLink(limit int, last int64) {
	var link strings.Builder
	fmt.Fprintf(&link, "<?limit=%d&after=%d", limit, last)
	for _, other := range c.query() {
		if other.name != "limit" && other.name != "after" {
			link.WriteString("&" + unsafeInQuery.ReplaceAllStringFunc(other.raw, url.PathEscape))
		}
	}
	c.w.Header().Set("Link", link.String()+`>; rel="next"`)
}

// unsafeInQuery is what a query must not contain (RFC 3986, section 3.4). net/http accepts
// most of it.
var unsafeInQuery = regexp.MustCompile(`[^A-Za-z0-9\-._~!$&'()*+,;=:@/?%]`)
