package httpapi_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestTrash_RestoresFoldersAndSymbols(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	for _, name := range []string{"A", "B"} {
		h.folder(name)
		for _, symbol := range []string{"1", "2"} {
			h.client("POST", "/symbol/folders/1/symbols", `{"name":"`+name+symbol+`","type":"a/b","data":"x","tags":["t"]}`).want(201)
		}
	}
	body := func(method, path, in string) string { return string(h.client(method, path, in).want(200).body) }
	is.Equal(body("PATCH", "/symbol/symbols", `{"ids":[3,4,1],"addTags":["u","t"]}`), `{"updated":3}`)
	is.Equal(body("PATCH", "/symbol/symbols", `{"ids":[3,4],"folderId":2,"removeTags":["t"]}`), `{"updated":2}`)
	is.Equal(body("PATCH", "/symbol/symbols", `{"ids":[3,4],"folderId":2,"removeTags":["t"]}`), `{"updated":0}`)
	is.Equal(body("GET", "/symbol/search?q=u&fields=id,tags,updatedBy", ""),
		`[{"id":1,"tags":["t","u"],"updatedBy":1},{"id":3,"tags":["u"],"updatedBy":1},{"id":4,"tags":["u"],"updatedBy":1}]`)

	h.client("DELETE", "/symbol/symbols/1", "").want(200)
	is.Equal(body("POST", "/symbol/symbols/delete", `{"ids":[4,3]}`), `{"deleted":2}`)
	h.client("DELETE", "/symbol/folders/1", "").want(200)
	is.Equal(len(h.client("GET", "/symbol/trash", "").want(200).array()), 4)
	first := h.client("GET", "/symbol/trash?limit=3", "").want(200)
	first.wantHeaders("Link", `<?limit=3&after=3>; rel="next"`)
	h.get("/symbol/trash", "Accept-Encoding", "gzip").want(200).wantHeaders("Content-Encoding", "", // below 1,024 bytes
		"Vary", "Accept-Encoding")
	last := string(h.client("GET", "/symbol/trash?limit=3&after=3", "").want(200).body)
	is.True(strings.HasPrefix(last, `[{"id":4,"kind":"folder","name":"A","folderId":1,"symbols":1,"deletedAt":"20`))
	is.True(strings.HasSuffix(last, `Z","deletedBy":1}]`))
	is.True(strings.Contains(string(first.body), `"kind":"symbol","name":"A1","folderId":1,"symbols":null`))

	h.client("POST", "/symbol/trash/1/restore", "").wantError(409, "conflict")
	h.client("POST", "/symbol/trash/1/restore", `{"folderId":9}`).wantError(404, "not_found")
	h.client("POST", "/symbol/trash/1/restore", `{"folderId":0}`).wantInvalid("folderId ")
	h.client("POST", "/symbol/trash/4/restore", `{"folderId":2}`).wantError(400, "invalid_request")
	is.Equal(body("POST", "/symbol/trash/1/restore", `{"folderId":2}`), `{"id":1,"name":"A1","type":"a/b","data":"x","folderId":2}`)
	is.Equal(body("POST", "/symbol/trash/4/restore", ""), `{"id":1,"name":"A"}`)
	is.Equal(body("GET", "/symbol/folders/1/symbols?fields=id,name,tags", ""), `[{"id":2,"name":"A2","tags":["t"]}]`)
	h.client("POST", "/symbol/trash/4/restore", "").wantError(404, "not_found")
	h.client("DELETE", "/symbol/trash/2", "").want(200)
	h.client("DELETE", "/symbol/trash/2", "").wantError(404, "not_found")

	for path, messages := range map[string]map[string]string{
		"PATCH /symbol/symbols": {
			`{}`: "ids ", `{"ids":[1,1]}`: "ids[1] ", `{"ids":[0]}`: "ids[0] ", `{"ids":["1"]}`: "ids[0] ",
			`{"ids":[1],"addTags":["a"],"removeTags":["a"]}`: "removeTags[0] ", `{"ids":[1],"addTags":[" "]}`: "addTags[0] ",
			`{"ids":[2],"removeTags":["a"` + strings.Repeat(`,"a"`, 1000) + `]}`: "removeTags ", `{"ids":[2],"removeTags":["\u0000"]}`: "removeTags[0] ",
			`{"ids":[2],"addTags":["` + strings.Join(strings.Split("0123456789abcdefghijklmnopqrsuvw", ""), `","`) + `"]}`: "addTags: symbol 2 ", // it has another
			`{"ids":[1],"folderId":0}`: "folderId ", `{"ids":[` + strings.Repeat("1,", 1000) + `2]}`: "ids ",
		},
		"POST /symbol/symbols/delete": {`{}`: "ids ", `{"ids":[]}`: "ids "},
	} {
		method, target, _ := strings.Cut(path, " ")
		for in, message := range messages {
			h.client(method, target, in).wantInvalid(message)
		}
		missing := h.client(method, target, `{"ids":[2,77]}`).wantError(404, "not_found")
		is.True(strings.Contains(missing.message(), "77"))
	}
	missing := h.client("PATCH", "/symbol/symbols", `{"ids":[2],"folderId":88}`).wantError(404, "not_found")
	is.True(strings.Contains(missing.message(), "folder") && strings.Contains(missing.message(), "88"))
	h.client("GET", "/symbol/symbols/delete", "").wantError(405, "method_not_allowed")
}
