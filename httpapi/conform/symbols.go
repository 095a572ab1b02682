package conform

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
)

const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 40"><path d="M0 5l60 30V5L0 35z"/></svg>`

// createFolder creates a folder that is deleted with the client key of s.
func (s *suite) createFolder() (path, name string) {
	s.Helper()
	name = randomName()
	path = "/symbol/folders/" + decode[record](s.send("POST", "/symbol/folders", `{"name":`+quote(name)+`}`).want(201)).id()
	s.deleteLater(path)
	return path, name
}

// createSymbol creates a symbol in a folder.
func (s *suite) createSymbol(folder, name, data string) (path string) {
	s.Helper()
	body := `{"name":` + quote(name) + `,"type":"image/svg+xml","data":` + quote(data) + `}`
	return "/symbol/symbols/" + decode[record](s.send("POST", folder+"/symbols", body).want(201)).id()
}

func lastElement(path string) string { return path[strings.LastIndex(path, "/")+1:] }

func testFolders(s *suite) {
	path, name := s.createFolder()
	shown := `{"id":` + lastElement(path) + `,"name":` + quote(name) + `}`
	s.send("GET", path, "").want(200).wantBody(shown)
	s.send("PATCH", path, `{}`).want(200).wantBody(shown)
	s.send("GET", path+"/symbols", "").want(200).wantBody("[]")
	s.send("HEAD", path, "").want(200).wantBody("")

	other, otherName := s.createFolder()
	s.send("POST", "/symbol/folders", `{"name":`+quote(name)+`}`).wantError(409, "conflict", "")
	s.send("PATCH", other, `{"name":`+quote(name)+`}`).wantError(409, "conflict", "")
	s.send("PATCH", other, `{"name":`+quote(otherName)+`}`).want(200)

	racing := randomName()
	statuses := make(chan int, 8)
	var all sync.WaitGroup
	for range cap(statuses) {
		all.Go(func() {
			r, err := s.try(s.Context(), "POST", "/symbol/folders", `{"name":`+quote(racing)+`}`)
			if err != nil {
				s.Error(err)
				return
			}
			if r.status == 201 {
				s.deleteLater("/symbol/folders/" + decode[record](r).id())
			}
			statuses <- r.status
		})
	}
	all.Wait()
	close(statuses)
	created := 0
	for status := range statuses {
		switch status {
		case 201:
			created++
		case 409:
		default:
			s.Errorf("POST /symbol/folders: status %d", status)
		}
	}
	if created != 1 {
		s.Errorf("%d folders got the same name", created)
	}

	symbol := s.createSymbol(path, "x", svg)
	s.send("DELETE", path, "").want(200)
	s.send("DELETE", path, "").wantError(404, "not_found", "")
	s.send("GET", path+"/symbols", "").wantError(404, "not_found", "")
	s.send("GET", symbol, "").wantError(404, "not_found", "")
}

func testSymbols(s *suite) {
	folder, _ := s.createFolder()
	other, _ := s.createFolder()
	name := randomName()
	path := s.createSymbol(folder, name, svg)
	show := func(name, folder string) string {
		return `{"id":` + lastElement(path) + `,"name":` + quote(name) + `,"type":"image/svg+xml","data":` + quote(svg) + `,"folderId":` + lastElement(folder) + `}`
	}
	sameJSON(s, s.send("GET", path, "").want(200).body, show(name, folder))
	sameJSON(s, s.send("GET", folder+"/symbols", "").want(200).body, "["+show(name, folder)+"]")
	sameJSON(s, s.send("PATCH", path, `{"name":"renamed"}`).want(200).body, show("renamed", folder))
	sameJSON(s, s.send("PATCH", path, `{"name":`+quote(name)+`,"folderId":`+lastElement(other)+`}`).want(200).body, show(name, other))
	s.send("GET", folder+"/symbols", "").want(200).wantBody("[]")
	s.send("PATCH", path, `{"folderId":9007199254740991}`).wantError(404, "not_found", "")
	s.send("PATCH", path, `{"data":""}`).wantError(400, "invalid_request", "data")
	s.send("POST", folder+"/symbols", `{"name":"x","type":"none","data":"x"}`).wantError(400, "invalid_request", "type")
	s.send("POST", "/symbol/folders/9007199254740991/symbols", `{"name":"x","type":"a/b","data":"x"}`).wantError(404, "not_found", "")

	image := s.send("GET", path+"/image", "").want(200).wantBody(svg)
	image.wantHeader("Content-Type", "image/svg+xml").wantHeader("X-Content-Type-Options", "nosniff")
	image.wantHeader("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	text := s.createSymbol(folder, "text", "no picture")
	s.send("GET", text+"/image", "").wantError(404, "not_found", "")

	found := decode[[]record](s.send("GET", "/symbol/search?q="+url.QueryEscape(strings.ToUpper(name[3:])), "").want(200))
	if len(found) != 1 || found[0].id() != lastElement(path) || found[0]["data"] != nil {
		s.Errorf("GET /symbol/search finds %v", found)
	}
	s.send("GET", "/symbol/search", "").wantError(400, "invalid_request", "q")

	s.send("DELETE", path, "").want(200)
	s.send("DELETE", path, "").wantError(404, "not_found", "")
	s.send("GET", path, "").wantError(404, "not_found", "")
}

func testConditions(s *suite) {
	folder, _ := s.createFolder()
	symbol := s.createSymbol(folder, "x", svg)
	for _, path := range []string{folder, symbol, folder + "/symbols", "/symbol/folders"} {
		shown := s.send("GET", path, "").want(200)
		tag := shown.header.Get("ETag")
		if len(tag) < 3 || tag[0] != '"' {
			s.Errorf("GET %s: ETag %q is not strong", path, tag)
		}
		if path == "/symbol/folders" {
			continue // others may change it
		}
		for _, value := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			s.send("GET", path, "", "If-None-Match", value).want(304).wantBody("").wantHeader("ETag", tag)
		}
		s.send("GET", path, "", "If-None-Match", `"other"`).want(200).wantBody(shown.body)
		s.send("HEAD", path, "", "If-None-Match", tag).want(304)
	}
	tag := s.send("GET", symbol, "").want(200).header.Get("ETag")
	s.send("PATCH", symbol, `{"name":"y"}`, "If-Match", `"other"`).wantError(412, "precondition_failed", "")
	s.send("PATCH", symbol, `{"name":"x"}`, "If-Match", tag).want(200)
	s.send("GET", symbol, "", "If-None-Match", tag).want(304) // equal values keep it
	s.send("PATCH", symbol, `{"name":"y"}`, "If-Match", tag).want(200)
	s.send("GET", symbol, "", "If-None-Match", tag).want(200)
	s.send("PATCH", symbol, `{"name":"z"}`, "If-Match", tag).wantError(412, "precondition_failed", "")
	s.send("DELETE", folder, "", "If-Match", `"other"`).wantError(412, "precondition_failed", "")
	s.send("DELETE", symbol, "", "If-Match", "*").want(200)
}

func testLists(s *suite) {
	folder, _ := s.createFolder()
	var ids []string
	for range 5 {
		ids = append(ids, lastElement(s.createSymbol(folder, randomName(), strings.Repeat("x", 400))))
	}
	list := folder + "/symbols"
	var paged []string
	for query := "?limit=2&fields=id,size"; query != ""; {
		page := s.send("GET", list+query, "").want(200)
		for _, symbol := range decode[[]record](page) {
			if len(symbol) != 2 || symbol["size"] != 400.0 {
				s.Errorf("GET %s%s: %v", list, query, symbol)
			}
			paged = append(paged, symbol.id())
		}
		link := page.header.Get("Link")
		query = ""
		if target, rest, ok := strings.Cut(link, ">"); ok && strings.Contains(rest, `rel="next"`) {
			query = target[strings.Index(target, "?"):]
		}
	}
	if got, want := strings.Join(paged, " "), strings.Join(ids, " "); got != want {
		s.Errorf("pages have the symbols %s, want %s", got, want)
	}
	s.send("GET", list+"?fields=none", "").wantError(400, "invalid_request", "fields")

	plain := s.send("GET", list, "").want(200)
	zipped := s.send("GET", list, "", "Accept-Encoding", "gzip").want(200).wantHeader("Content-Encoding", "gzip")
	if !strings.Contains(zipped.header.Get("Vary"), "Accept-Encoding") || zipped.header.Get("ETag") == plain.header.Get("ETag") {
		s.Errorf("compressed list with Vary %q and ETag %s", zipped.header.Get("Vary"), zipped.header.Get("ETag"))
	}
	r, err := gzip.NewReader(strings.NewReader(zipped.body))
	if err != nil {
		s.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil || string(content) != plain.body {
		s.Errorf("the compressed list differs: %v", err)
	}
	s.send("GET", list, "", "If-None-Match", zipped.header.Get("ETag")).want(304)
}

func testBundles(s *suite) {
	folder, _ := s.createFolder()
	s.createSymbol(folder, "Gate valve", svg)
	s.createSymbol(folder, "Check valve", svg)
	bundle := s.send("GET", folder+"/export", "").want(200).wantHeader("Content-Type", "application/zip")
	archive := unzip(s.T, bundle.body)
	if len(archive) < 2 {
		s.Errorf("the zip of a folder has %d files", len(archive))
	}
	into, _ := s.createFolder()
	s.send("POST", into+"/import?dryRun=true", bundle.body, "Content-Type", "application/zip").want(200)
	s.send("GET", into+"/symbols", "").want(200).wantBody("[]")
	s.send("POST", into+"/import", bundle.body, "Content-Type", "application/zip").want(201)
	imported := decode[[]record](s.send("GET", into+"/symbols", "").want(200))
	if len(imported) != 2 || imported[0]["name"] != "Gate valve" || imported[0]["data"] != svg {
		s.Errorf("imported symbols are %v", imported)
	}
	s.send("POST", into+"/import", "no archive", "Content-Type", "application/zip").wantError(400, "invalid_request", "")
}

// unzip returns the content of the files of an archive by name.
func unzip(t *testing.T, archive string) map[string]string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader([]byte(archive)), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, f := range r.File {
		body, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(body)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		files[f.Name] = string(content)
	}
	return files
}
