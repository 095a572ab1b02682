package conform

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 40"><path d="M0 5l60 30V5L0 35z"/></svg>`

func testErrors(s *suite) {
	s.send("GET", s.keyPath, "").want(200).wantHeader("Cache-Control", "no-store")
	for _, key := range []string{"", s.key, s.options.AdminKey + "x"} {
		s.send("GET", s.keyPath, "", "x-admin-key", key).wantError(401, "unauthorized")
	}
	s.send("GET", "/nope", "", "X-Request-Id", "conform-1").wantError(404, "not_found").wantHeader("X-Request-Id", "conform-1")
	s.send("PUT", "/symbol/folders", "{}").wantError(405, "method_not_allowed").wantHeader("Allow", "GET, HEAD, POST")
}

// testRevocation expects that each change holds for the next request, on any process
// behind the URL.
func testRevocation(s *suite) {
	s.skipIfOpen()
	symbol := s.createSymbol(s.createFolder(), "image", svg)
	raw := decode[struct{ Token string }](s.send("POST", "/viewer/tokens", `{"scopes":["symbols:read"]}`).want(201)).Token
	first := s.key
	check := func(key string, status int) {
		s.Helper()
		for range 5 { // on several processes
			s.send("GET", symbol, "", "x-api-key", key).want(status)
		}
	}
	check("", 401)
	check(first+"x", 401)
	check(raw+"x", 401)
	check(first, 200)
	check(raw, 200)
	image := s.send("GET", symbol+"/image?token="+raw, "", "x-api-key", "").want(200).wantBody(svg)
	image.wantHeader("Content-Type", "image/svg+xml").wantHeader("Referrer-Policy", "no-referrer")
	s.send("GET", symbol+"/image?token="+first, "", "x-api-key", "").wantError(401, "unauthorized")
	s.send("DELETE", symbol, "", "x-api-key", raw).wantError(403, "forbidden")

	s.send("PATCH", s.keyPath, `{"isActive":false}`).want(200)
	s.send("GET", symbol+"/image?token="+raw, "", "x-api-key", "").wantError(403, "forbidden")
	check(first, 403)
	check(raw, 403)
	s.send("PATCH", s.keyPath, `{"isActive":true}`).want(200)
	check(first, 200)

	second := decode[issued](s.send("POST", s.keyPath+"/rotate", "").want(200)).APIKey
	check(first, 401)
	check(raw, 401)
	check(second, 200)
	s.key = decode[issued](s.send("POST", s.keyPath+"/rotate", `{"overlapSeconds":600}`).want(200)).APIKey
	check(second, 200)
	s.send("PATCH", s.keyPath, `{"expiresAt":"2000-01-01"}`).want(200)
	check(second, 403)
	s.send("PATCH", s.keyPath, `{"expiresAt":null,"scopes":["exports:read"]}`).want(200)
	check(s.key, 403)
	s.send("PATCH", s.keyPath, `{"scopes":null}`).want(200)
	check(s.key, 200)
}

func testSymbols(s *suite) {
	folder := s.createFolder()
	name := decode[record](s.send("GET", folder, "").want(200))["name"].(string)
	s.send("POST", "/symbol/folders", fmt.Sprintf(`{"name":%q}`, name)).wantError(409, "conflict")
	data := strings.Repeat("0123456789abcdef", 2<<20/16) // nginx rejects more than 1 MiB by default
	symbol := s.createSymbol(folder, "Ventil ü 弁 "+name, data)
	for _, target := range []string{folder, symbol, folder + "/symbols"} {
		shown := s.send("GET", target, "").want(200).wantHeader("Cache-Control", "private, no-cache")
		tag := shown.header.Get("ETag")
		if len(tag) < 3 || tag[0] != '"' {
			s.Errorf("GET %s: ETag %q is not strong", target, tag)
		}
		s.send("HEAD", target, "").want(200).wantBody("").wantHeader("ETag", tag)
		for _, value := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			s.send("GET", target, "", "If-None-Match", value).want(304).wantBody("").wantHeader("ETag", tag)
		}
		s.send("GET", target, "", "If-None-Match", `"other"`).want(200).wantBody(shown.body)
	}
	if got := decode[record](s.send("GET", symbol, "").want(200))["data"]; got != data {
		s.Errorf("GET %s: the data differs", symbol)
	}
	found := decode[[]record](s.send("GET", "/symbol/search?q="+url.QueryEscape("弁 ü "+name), "").want(200))
	if len(found) != 1 || found[0].id() != path.Base(symbol) {
		s.Errorf("GET /symbol/search finds %d symbols", len(found))
	}
	tag := s.send("HEAD", symbol, "").header.Get("ETag")
	s.send("PATCH", symbol, `{"name":"y"}`, "If-Match", tag).want(200)
	s.send("PATCH", symbol, `{"name":"z"}`, "If-Match", tag).wantError(412, "precondition_failed")
	s.send("DELETE", symbol, "", "If-Match", `"other"`).wantError(412, "precondition_failed")
	s.send("DELETE", symbol, "", "If-Match", "*").want(200)
	s.send("GET", symbol, "").wantError(404, "not_found")
}

func testLists(s *suite) {
	folder := s.createFolder()
	var ids, paged []string
	for range 5 {
		ids = append(ids, path.Base(s.createSymbol(folder, randomName(), strings.Repeat("x", 400))))
	}
	list := folder + "/symbols"
	for query := "?limit=2&fields=id,size"; query != "" && len(paged) <= len(ids); {
		page := s.send("GET", list+query, "").want(200)
		listed := decode[[]record](page)
		if len(listed) > 2 {
			s.Errorf("a page of 2 has %d symbols", len(listed))
		}
		for _, symbol := range listed {
			paged = append(paged, symbol.id())
		}
		_, query, _ = strings.Cut(page.header.Get("Link"), "?")
		if query != "" {
			query = "?" + strings.TrimSuffix(query, `>; rel="next"`)
		}
	}
	if got, want := strings.Join(paged, " "), strings.Join(ids, " "); got != want {
		s.Errorf("pages have the symbols %s, want %s", got, want)
	}

	plain := s.send("GET", list, "").want(200)
	zipped := s.send("GET", list, "", "Accept-Encoding", "gzip").want(200).wantHeader("Content-Encoding", "gzip")
	if vary := zipped.header.Get("Vary"); !strings.Contains(vary, "Accept-Encoding") {
		s.Errorf("compressed list with Vary %q", vary)
	}
	r, err := gzip.NewReader(strings.NewReader(zipped.body))
	if err != nil {
		s.Fatal(err)
	}
	if content, err := io.ReadAll(r); err != nil || string(content) != plain.body {
		s.Errorf("the compressed list differs: %v", err)
	}
	s.send("GET", list, "", "If-None-Match", zipped.header.Get("ETag")).want(304)
}

// testTrash changes and deletes two symbols at once, and restores them.
func testTrash(s *suite) {
	folder, other := s.createFolder(), s.createFolder()
	ids := `{"ids":[` + path.Base(s.createSymbol(folder, "a", svg)) + "," + path.Base(s.createSymbol(folder, "b", svg)) + "]"
	s.send("PATCH", "/symbol/symbols", ids+`,"addTags":["t"],"folderId":`+path.Base(other)+"}").want(200).wantBody(`{"updated":2}`)
	list := s.send("GET", other+"/symbols?fields=id,data,tags", "").want(200)
	s.send("POST", "/symbol/symbols/delete", ids+"}").want(200).wantBody(`{"deleted":2}`)
	s.send("GET", other+"/symbols", "").want(200).wantBody("[]")
	s.send("DELETE", other, "").want(200)
	entries := decode[[]record](s.send("GET", "/symbol/trash", "").want(200))
	for _, entry := range slices.Backward(entries) { // the folder before its symbols
		if fmt.Sprintf("%.0f", entry["folderId"]) == path.Base(other) {
			s.send("POST", "/symbol/trash/"+entry.id()+"/restore", "").want(200)
		}
	}
	if s.send("GET", other, "").status == 404 {
		s.Skip("the server has no trash")
	}
	s.send("GET", other+"/symbols?fields=id,data,tags", "").want(200).wantBody(list.body)
}

// testImport imports a zip of a picture and a library, and then what it exports.
func testImport(s *suite) {
	library := `<mxlibrary>[{"title":"pump","data":"data:image/svg+xml,` + url.PathEscape(svg) + `"},{}]</mxlibrary>`
	var archive bytes.Buffer
	files := zip.NewWriter(&archive)
	for _, file := range [][2]string{{"a/valve.svg", svg}, {"LICENSE", "MIT"}, {"library.xml", library}} {
		w, _ := files.Create(file[0]) // a Buffer returns no errors
		io.WriteString(w, file[1])
	}
	files.Close()
	content := archive.String()
	for _, query := range []string{"?skip=true", ""} {
		folder := s.createFolder()
		s.send("POST", folder+"/import"+query, content, "Content-Type", "application/zip").want(201)
		list := s.send("GET", folder+"/symbols?fields=name,tags", "").want(200)
		list.wantBody(`[{"name":"valve","tags":["a"]},{"name":"pump","tags":[]}]`)
		content = s.send("GET", folder+"/export", "").want(200).wantHeader("Content-Type", "application/zip").body
	}
}

// testChanges expects that events arrive while the stream is open, and that another stream
// resumes it.
func testChanges(s *suite) {
	id := ""
	for i := range 3 {
		var headers []string
		query := ""
		folder := s.createFolder()
		if id != "" { // what has changed before the stream is open
			s.createSymbol(folder, "symbol", "data")
			if headers = []string{"Last-Event-ID", id}; i == 2 {
				headers, query = nil, "?lastEventId="+id
			}
		}
		stream := s.open("GET", "/symbol/changes"+query, "", headers...)
		events := bufio.NewScanner(stream.Body)
		if id == "" {
			s.createSymbol(folder, "symbol", "data")
		}
		for named := false; !named; {
			if !events.Scan() {
				s.Fatalf("the stream has ended: %v", events.Err())
			}
			if text, ok := strings.CutPrefix(events.Text(), "id: "); ok {
				id = text
			}
			if i > 0 && strings.Contains(events.Text(), `"folderIds":null`) {
				s.Fatal("another stream does not resume")
			}
			_, ids, _ := strings.Cut(events.Text(), `"folderIds":[`)
			named = slices.Contains(strings.Split(strings.TrimRight(ids, "]}"), ","), path.Base(folder))
		}
		stream.Body.Close()
	}
}

func testDownloads(s *suite) {
	known, unknown := s.registerFile(), newItem()
	file := s.send("POST", "/viewer/exports/download", known).want(200)
	file.wantHeader("Content-Disposition", `attachment; filename="plan.pdf"`).wantHeader("X-Content-Type-Options", "nosniff")
	file.wantHeader("Cache-Control", "no-store")
	s.send("POST", "/viewer/exports/download", unknown).wantError(404, "not_found")
	batch := `{"items":[` + known + `,` + unknown + `,` + known + `]}`
	archive := s.send("POST", "/viewer/exports/download-batch", batch).want(200).wantHeader("Content-Type", "application/zip")
	files, err := zip.NewReader(strings.NewReader(archive.body), int64(len(archive.body)))
	if err != nil || len(files.File) != 3 {
		s.Fatalf("the zip of a batch: %v", err)
	}
	for _, name := range []string{"plan.pdf", "plan-1.pdf"} {
		if content, err := fs.ReadFile(files, name); err != nil || string(content) != file.body {
			s.Errorf("%s of a zip differs: %v", name, err)
		}
	}
}

func testLinks(s *suite) {
	known := s.registerFile()
	target := ""
	for _, body := range []string{known, `{"items":[` + known + `,` + known + `]}`} {
		link := decode[struct {
			URL, ETag string
			Size      int
			Resumable bool
		}](s.send("POST", "/viewer/exports/links", body).want(201))
		target = "/viewer/exports/" + link.URL
		get := func(headers ...string) *response {
			s.Helper()
			return s.send("GET", target, "", append(headers, "x-api-key", "")...)
		}
		complete := get().want(200)
		if !link.Resumable {
			s.Log("the file has no validator, so links to it do not resume")
			continue
		}
		complete.wantHeader("ETag", link.ETag).wantHeader("Accept-Ranges", "bytes").wantHeader("Cache-Control", "private, no-cache")
		if len(complete.body) != link.Size {
			s.Errorf("a link has %d bytes, want %d", len(complete.body), link.Size)
		}
		get("Range", "bytes=10-19").want(206).wantBody(complete.body[10:20]).wantHeader("Content-Range", fmt.Sprintf("bytes 10-19/%d", link.Size))
		get("Range", "bytes=50-", "If-Range", link.ETag).want(206).wantBody(complete.body[50:])
		get("Range", "bytes=50-", "If-Range", `"other"`).want(200).wantBody(complete.body)
		get("Range", "bytes=9999999999999-").wantError(416, "range_not_satisfiable").wantHeader("Content-Range", fmt.Sprintf("bytes */%d", link.Size))
		get("If-None-Match", link.ETag).want(304).wantBody("")
		get("If-Match", `"other"`).wantError(412, "precondition_failed")
		s.send("HEAD", target, "", "x-api-key", "").want(200).wantHeader("ETag", link.ETag).wantBody("")
	}
	s.skipIfOpen()
	s.send("PATCH", s.keyPath, `{"isActive":false}`).want(200)
	s.send("GET", target, "", "x-api-key", "").wantError(403, "forbidden")
}
