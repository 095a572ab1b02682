package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

// TestJSON_AdversarialBodies sends bodies that stress a parser.
func TestJSON_AdversarialBodies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { o.Limits.Body = 40 << 20 })
	fields := func(n int, rest string) string {
		var body strings.Builder
		body.WriteString("{")
		for i := range n {
			fmt.Fprintf(&body, `"f%d":0,`, i)
		}
		return body.String() + rest
	}
	nested := func(n int) string {
		return `{"name":"nested","x":` + strings.Repeat(`{"a":[`, n) + strings.Repeat(`]}`, n) + `}`
	}
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"100 levels":                  {nested(50), 201},
		"100000 levels":               {nested(50_000), 400},
		"unclosed arrays":             {`{"x":` + strings.Repeat("[", 1_000_000), 400},
		"100,000 fields":              {fields(100_000, `"name":"million"}`), 201},
		"100,000 fields, one twice":   {fields(100_000, `"name":"x","f7":1}`), 400},
		"a million elements":          {`{"name":"elements","x":[` + strings.Repeat("0,", 1_000_000) + `0]}`, 201},
		"a million digits":            {`{"name":"digits","x":` + strings.Repeat("9", 1_000_000) + `}`, 201},
		"1e400":                       {`{"name":"1e400","x":1e400}`, 201}, // an unknown field
		"an invalid number":           {`{"name":"x","x":01}`, 400},
		"NaN":                         {`{"name":"x","x":NaN}`, 400},
		"UTF-32":                      {"{\x00\x00\x00}\x00\x00\x00", 400},
		"UTF-7":                       {`+AHs-"name":"x"+AH0-`, 400},
		"two byte order marks":        {"\ufeff\ufeff{}", 400},
		"fields that look alike":      {`{"name":"alike","n\u0430me":"y","NAME":"z"}`, 201},
		"an escaped NUL as a field":   {`{"name":"NUL field","\u0000":1}`, 201},
		"a lone surrogate as a field": {`{"name":"x","\udc00":1}`, 400},
		"a long field name":           {`{"` + strings.Repeat("x", 1_000_000) + `":0,"` + strings.Repeat("x", 1_000_000) + `":0}`, 400},
		"a million spaces":            {strings.Repeat(" ", 1_000_000) + `{"name":"space"}`, 201},
		"__proto__":                   {`{"__proto__":{"name":"x"},"constructor":{}}`, 400},
		"a name of controls":          {`{"name":"\u0001\u001b[31m"}`, 201},
	} {
		t.Log(name)
		began := time.Now()
		response := h.client("POST", "/symbol/folders", c.body).want(c.status)
		is.True(len(response.body) <= 4<<10)
		is.True(time.Since(began) <= 2*time.Minute)
	}
}
