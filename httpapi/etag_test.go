package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// tag returns the ETag of a path, which must be strong.
func (h *harness) tag(path string) string {
	h.t.Helper()
	response := h.client("GET", path, "").want(200)
	tag := response.header.Get("ETag")
	if len(tag) < 3 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		h.t.Fatalf("ETag of %s is %q", path, tag)
	}
	if got := response.header.Get("Cache-Control"); got != "private, no-cache" {
		h.t.Fatalf("Cache-Control of %s is %q", path, got)
	}
	return tag
}

func TestETag_IfNoneMatch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveFolder(t)
	h.client("POST", "/symbol/folders/1/symbols", `{"name":"s","type":"a/b","data":"1"}`).want(201)
	for _, path := range []string{"/symbol/folders", "/symbol/folders/1", "/symbol/folders/1/symbols", "/symbol/symbols/1"} {
		tag := h.tag(path)
		for _, c := range []struct {
			lines  []string
			status int
		}{
			{[]string{tag}, 304},
			{[]string{"W/" + tag}, 304}, // weak comparison
			{[]string{"*"}, 304},
			{[]string{`"other",W/"b" ,` + tag + `, "c"`}, 304},
			{[]string{`"a"`, tag}, 304}, // two lines form one list
			{[]string{`"other"`}, 200},
			{[]string{``}, 200},
			{[]string{strings.Trim(tag, `"`)}, 200}, // not quoted
			{[]string{`"0` + tag[1:]}, 200},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				t.Log(method, path, c.lines)
				headers := []string{"x-api-key", h.rawKey}
				for _, line := range c.lines {
					headers = append(headers, "If-None-Match", line)
				}
				response := h.send(method, path, "", headers...)
				is.Equal(response.status, c.status)
				response.wantHeaders("ETag", tag, "Content-Type", map[int]string{200: "application/json"}[c.status])
				is.True(c.status != 304 || len(response.body) == 0)
			}
		}
		h.send("GET", path, "", "If-None-Match", tag).wantError(401, "unauthorized") // the key comes first
	}
}

func TestETag_IfMatch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	folder := h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	symbol := h.client("POST", "/symbol/folders/1/symbols", `{"name":"s","type":"a/b","data":"1"}`).want(201)
	folder.wantHeaders("ETag", h.tag("/symbol/folders/1"))
	symbol.wantHeaders("ETag", h.tag("/symbol/symbols/1"), "Cache-Control", "no-store")

	for _, path := range []string{"/symbol/folders/1", "/symbol/symbols/1"} {
		with := func(method, body string, lines ...string) response {
			headers := []string{"x-api-key", h.rawKey}
			for _, line := range lines {
				headers = append(headers, "If-Match", line)
			}
			return h.send(method, path, body, headers...)
		}
		first := h.tag(path)
		second := with("PATCH", `{"name":"b"}`, first).want(200).header.Get("ETag")
		is.Equal(second, h.tag(path))
		for _, stale := range [][]string{
			{first}, {`"x", ` + first}, {"W/" + first}, {`""`}, {``}, {`nonsense`}, {strings.Trim(second, `"`)}, {`"*"`},
		} {
			with("PATCH", `{"name":"c"}`, stale...).wantError(412, "precondition_failed")
			with("PATCH", `{}`, stale...).wantError(412, "precondition_failed")
			with("DELETE", "", stale...).wantError(412, "precondition_failed")
		}
		is.Equal(h.tag(path), second) // unchanged
		with("PATCH", `{"name":5}`, first).wantError(400, "invalid_request")
		third := with("PATCH", `{"name":"d"}`, first, second).want(200).header.Get("ETag")
		with("PATCH", `{"name":"d"}`, third).want(200).wantHeaders("ETag", third) // equal values
		// Proxies that compress weaken tags; ours of compressed bodies are accepted too.
		fourth := with("PATCH", `{"name":"e"}`, `W/"other", W/`+third).want(200).header.Get("ETag")
		with("PATCH", `{"name":"f"}`, strings.TrimSuffix(fourth, `"`)+`.gz"`).want(200)
		with("PATCH", `{"name":"e"}`, "*").want(200)
	}
	ofFields := h.client("GET", "/symbol/symbols/1?fields=id,tags", "").want(200).header.Get("ETag")
	for _, want := range []int{200, 412} {
		h.send("PATCH", "/symbol/symbols/1", `{"tags":["a"]}`, "x-api-key", h.rawKey, "If-Match", ofFields).want(want)
	}
	for _, path := range []string{"/symbol/symbols/1", "/symbol/folders/1"} {
		with := func(method, body, tag string) response {
			return h.send(method, path, body, "x-api-key", h.rawKey, "If-Match", tag)
		}
		tag := h.tag(path)
		with("DELETE", "", tag).want(200)
		h.get(path, "If-None-Match", tag).wantError(404, "not_found")
		with("DELETE", "", "*").wantError(404, "not_found")
		with("PATCH", `{}`, `"x"`).wantError(404, "not_found")
	}
}

func TestETag_OneOfConcurrentUpdatesSucceeds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveFolder(t)
	h.client("POST", "/symbol/folders/1/symbols", `{"name":"s","type":"a/b","data":"1"}`).want(201)
	for round := range 20 {
		tag := h.tag("/symbol/symbols/1")
		statuses := make(chan int)
		for editor := range 4 {
			go func() {
				body := `{"data":"` + strings.Repeat("x", 4*round+editor+2) + `"}`
				statuses <- h.send("PATCH", "/symbol/symbols/1", body, "x-api-key", h.rawKey, "If-Match", tag).status
			}()
		}
		count := make(map[int]int)
		for range 4 {
			count[<-statuses]++
		}
		is.Equal(count[http.StatusOK], 1)
		is.Equal(count[http.StatusPreconditionFailed], 3)
	}
}
