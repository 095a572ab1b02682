package ranges

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestParse(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const ignored, unsatisfiable = "[]", "unsatisfiable"
	huge := strings.Repeat("9", 30)
	for _, c := range []struct {
		size   int64
		header string
		want   string
	}{
		// RFC 9110, section 14.1.2
		{10_000, "bytes=0-499", "[{0 500}]"},
		{10_000, "bytes=500-999", "[{500 500}]"},
		{10_000, "bytes=-500", "[{9500 500}]"},
		{10_000, "bytes=9500-", "[{9500 500}]"},
		{10_000, "bytes=0-0,-1", "[{0 1} {9999 1}]"},
		{10_000, "bytes= 0-999, 4500-5499, -1000", "[{0 1000} {4500 1000} {9000 1000}]"},
		{10_000, "bytes=500-600,601-999", "[{500 101} {601 399}]"},
		{10_000, "bytes=500-700,601-999", ignored}, // overlap

		{10, "bytes=0-", "[{0 10}]"},
		{10, "bytes=0-9", "[{0 10}]"},
		{10, "bytes=9-9", "[{9 1}]"},
		{10, "bytes=5-100", "[{5 5}]"},
		{10, "bytes=-10", "[{0 10}]"},
		{10, "bytes=-11", "[{0 10}]"},
		{10, "bytes=0-" + huge, "[{0 10}]"},
		{10, "bytes=-" + huge, "[{0 10}]"},
		{10, "bytes=007-8", "[{7 2}]"},
		{1 << 62, fmt.Sprintf("bytes=%d-", int64(1<<62-1)), "[{4611686018427387903 1}]"},
		{10, "BYTES=0-1", "[{0 2}]"},

		{10, "bytes=10-", unsatisfiable},
		{10, "bytes=10-11", unsatisfiable},
		{10, "bytes=-0", unsatisfiable},
		{10, "bytes=" + huge + "-", unsatisfiable},
		{10, "bytes=10-,20-30,-0", unsatisfiable},

		{10, "bytes=8-9,0-1", "[{8 2} {0 2}]"}, // the order of the request
		{10, "bytes=0-1,10-20", "[{0 2}]"},     // one is satisfiable
		{10, "bytes=-0,0-1,4-5", "[{0 2} {4 2}]"},
		{10, "bytes=0-1 ,\t3-4", "[{0 2} {3 2}]"},
		{10, "bytes=,, 0-1,,", "[{0 2}]"},
		{10, "bytes=0-0,2-2,4-4,6-6,8-8,1-1,3-3,5-5", "[{0 1} {2 1} {4 1} {6 1} {8 1} {1 1} {3 1} {5 1}]"},
		{10, "bytes=0-0,2-2,4-4,6-6,8-8,1-1,3-3,5-5,7-7", ignored},             // nine
		{10, "bytes=10-,11-,12-,13-,14-,15-,16-,17-,18-", ignored},             // nine
		{10, "bytes=0-4,-6", ignored},                                          // overlap
		{10, "bytes=0-,-1", ignored},                                           // overlap
		{10, "bytes=1-1,1-1", ignored},                                         // overlap
		{10, "bytes=5-100,10-20", "[{5 5}]"},                                   // overlap beyond the end
		{10, "bytes=" + strings.Repeat(",", 1000) + "0-1", "[{0 2}]"},          // empty elements are no ranges
		{10, "bytes=0-1" + strings.Repeat(", ", 1000) + "3-", "[{0 2} {3 7}]"}, // nor are these

		{0, "bytes=0-", ignored},
		{0, "bytes=-1", ignored},
		{1, "bytes=0-", "[{0 1}]"},
		{1, "bytes=-1", "[{0 1}]"},
		{1, "bytes=1-", unsatisfiable},
	} {
		t.Log(c.header, c.size)
		status, list := Parse([]string{c.header}, c.size)
		got := fmt.Sprint(list)
		if status == http.StatusRequestedRangeNotSatisfiable && list == nil {
			got = unsatisfiable
		}
		is.Equal(got, c.want)
		is.Equal(status == http.StatusOK, got == ignored)
	}
	for _, lines := range [][]string{
		nil, {}, {"bytes=0-1", "bytes=2-3"}, {""}, {"bytes"}, {"bytes="}, {"bytes=,"}, {"bytes=-"}, {"bytes=--1"},
		{"bytes=1"}, {"bytes=2-1"}, {"bytes=20-1"}, {"bytes=+0-1"}, {"bytes=0 - 1"}, {"bytes=0-1;"}, {"bytes=a-b"},
		{"bytes=0x0-1"}, {"bytes=0-1-2"}, {"bytes=1.0-2"}, {"bytes =0-1"}, {"bytes:0-1"}, {"=0-1"}, {"items=0-1"},
		{"seconds=2-1"}, {"bytes=0-1="},
		{"bytes=0-1,2-1"}, // one is invalid
		{"bytes=٠-١"},     // Unicode digits
	} {
		t.Log(lines)
		status, list := Parse(lines, 10)
		is.Equal(status, http.StatusOK)
		is.Equal(list, nil)
	}
}

// FuzzParse checks what Parse promises for any header.
func FuzzParse(f *testing.F) {
	for _, header := range []string{"bytes=0-499", "bytes=-1, 3-4", "bytes=99999999999999999999-", "Bytes=,5-,", "x=1"} {
		f.Add(header, int64(500))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		is := is.New(t)
		if size < 0 {
			return
		}
		status, list := Parse([]string{header}, size)
		is.Equal(status == http.StatusPartialContent, len(list) > 0)
		is.True(len(list) <= 8 && (list == nil || len(list) > 0))
		var total int64
		for _, r := range list {
			is.True(r.Start >= 0)
			is.True(r.Length > 0)
			is.True(r.Length <= size-r.Start)
			total += r.Length
			status, again := Parse([]string{fmt.Sprintf("bytes=%d-%d", r.Start, r.Start+r.Length-1)}, size)
			is.Equal(status, http.StatusPartialContent)
			is.Equal(len(again), 1)
			is.Equal(again[0], r)
		}
		is.True(total <= size)
	})
}
