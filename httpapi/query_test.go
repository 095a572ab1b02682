package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// queryCall returns a call with a query.
func queryCall(raw string) *call {
	return &call{
		r: &http.Request{URL: &url.URL{RawQuery: raw}},
		w: response{ResponseWriter: httptest.NewRecorder()},
	}
}

func TestQuery_Page(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]page{
		"":                              {},
		"limit=1":                       {Limit: 1},
		"limit=1000&after=0":            {Limit: 1000},
		"after=9223372036854775807":     {After: 1<<63 - 1},
		"&&x=%zz&;&LIMIT=7&limit=2":     {Limit: 2},
		"%6cimit=%33&x=limit=4&aft%er=": {Limit: 3},
	} {
		got, err := queryCall(raw).page()
		if err != nil || got != want {
			t.Errorf("%s: page %+v, error %v, want %+v", raw, got, err, want)
		}
	}
	for _, raw := range []string{
		"limit", "limit=", "limit=0", "limit=1001", "limit=-1", "limit=+1", "limit=01", "limit=1.0", "limit=1e2", "limit=%201",
		"limit=%zz", "limit=1&limit=1", "limit=1&%6cimit=2", "limit=９", "after=-1", "after=", "after=00", "after=9223372036854775808",
		"after=1&limit=2&after=1",
	} {
		_, err := queryCall(raw).page()
		if err == nil || !strings.HasPrefix(err.Error(), "limit ") && !strings.HasPrefix(err.Error(), "after ") {
			t.Errorf("%s: error %v, want one that begins with the parameter's name", raw, err)
		}
	}
}

func TestQuery_LinkKeepsOtherParameters(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for raw, want := range map[string]string{
		"limit=2":                        `<?limit=2&after=7>; rel="next"`,
		"after=3&q=%C3%A9+b&limit=2&q=c": `<?limit=2&after=7&q=%C3%A9+b&q=c>; rel="next"`,
		`limit=2&x=">é<"&y`:              `<?limit=2&after=7&x=%22%3E%C3%A9%3C%22&y>; rel="next"`,
	} {
		c := queryCall(raw)
		page, err := c.page()
		is.NoErr(err)
		c.setLink(page.Limit, 7)
		is.Equal(c.w.Header().Get("Link"), want)
	}
}
