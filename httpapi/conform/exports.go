package conform

import (
	"net/url"
	"strings"
)

// register registers a file for a new source. It sends both keys, because the server
// may require either. The export is deleted at the end of the test.
func (s *suite) register(source, fileURL string) *response {
	s.Helper()
	r := s.send("POST", "/viewer/exports/register", `{"sourceFileUrl":`+quote(source)+`,"exportedUrl":`+quote(fileURL)+`,"fileName":"plan.pdf"}`, "x-admin-key", s.options.AdminKey)
	if r.status == 201 {
		s.deleteLater("/admin/exports/" + decode[struct{ Record record }](r).Record.id())
	}
	return r
}

func newSource() string { return "https://viewer.example/" + url.PathEscape(randomName()) }

func sourceBody(source string) string { return `{"sourceFileUrl":` + quote(source) + `}` }

func testRegistration(s *suite) {
	for _, exported := range []string{"ftp://files.example/x", "no URL", "https://user:password@files.example/x"} {
		s.register(newSource(), exported).wantError(400, "invalid_request", "exportedUrl")
	}
	unknown := sourceBody(newSource())
	for _, c := range []struct{ path, body, code string }{
		{"download", unknown, "not_found"},
		{"download?responseType=urls", unknown, "not_found"},
		{"download-batch", `{"items":[` + unknown + `]}`, "not_found"},
		{"download-batch?responseType=urls", `{"items":[` + unknown + `]}`, "not_found"},
		{"links", unknown, "not_found"},
	} {
		s.send("POST", "/viewer/exports/"+c.path, c.body).wantError(404, c.code, "")
	}
	s.send("POST", "/viewer/exports/download", `{"sourceFileUrl":" "}`).wantError(400, "invalid_request", "sourceFileUrl")
	s.send("POST", "/viewer/exports/download?responseType=zip", unknown).wantError(400, "invalid_request", "responseType")
	s.send("POST", "/viewer/exports/download-batch", `{"items":[]}`).wantError(400, "invalid_request", "items")
	s.send("POST", "/viewer/exports/download-batch", `{"items":[{},7]}`).wantError(400, "invalid_request", "items")
	s.send("GET", "/viewer/exports/links/unknown/x", "").wantError(404, "not_found", "")
}

// registerFile registers the file of the options, or skips the test without one.
func (s *suite) registerFile() (source string) {
	s.Helper()
	if s.options.FileURL == "" {
		s.Skip("no FileURL")
	}
	source = newSource()
	s.register(source, s.options.FileURL).want(201)
	return source
}

func testDownloads(s *suite) {
	source := s.registerFile()
	missing := newSource()
	known, unknown := sourceBody(source), sourceBody(missing)
	s.register(source, s.options.FileURL).want(200)

	file := s.send("POST", "/viewer/exports/download", known).want(200)
	file.wantHeader("Content-Disposition", `attachment; filename="plan.pdf"`).wantHeader("X-Content-Type-Options", "nosniff")
	if len(file.body) < 100 {
		s.Fatalf("the file has %d bytes", len(file.body))
	}
	s.send("POST", "/viewer/exports/download?responseType=urls", known).want(200)
	batch := `{"items":[` + known + `,` + unknown + `,` + known + `]}`
	archive := s.send("POST", "/viewer/exports/download-batch", batch).want(200).wantHeader("Content-Type", "application/zip")
	files := unzip(s.T, archive.body)
	if files["plan.pdf"] != file.body || files["plan-1.pdf"] != file.body || !strings.Contains(files["manifest.json"], missing) || len(files) != 3 {
		s.Errorf("the zip of a batch has %d files", len(files))
	}
	urls := decode[struct {
		ExportedURLs []string
		Skipped      []record
	}](s.send("POST", "/viewer/exports/download-batch?responseType=urls", batch).want(200))
	if len(urls.ExportedURLs) != 2 || len(urls.Skipped) != 1 {
		s.Errorf("the URLs of a batch are %v, skipped %v", urls.ExportedURLs, urls.Skipped)
	}

	found := decode[[]record](s.send("GET", "/admin/exports?q="+url.QueryEscape(source), "").want(200))
	if len(found) != 1 || found[0]["sourceFileUrl"] != source {
		s.Fatalf("GET /admin/exports finds %v", found)
	}
	path := "/admin/exports/" + found[0].id()
	check := decode[record](s.send("POST", path+"/check", "").want(200))
	if check["ok"] != true || check["fileName"] != "plan.pdf" {
		s.Errorf("the check of an export is %v", check)
	}
	s.send("DELETE", path, "").want(200)
	s.send("DELETE", path, "").wantError(404, "not_found", "")
	s.send("POST", "/viewer/exports/download", known).wantError(404, "not_found", "")
}

func testLinks(s *suite) {
	known := sourceBody(s.registerFile())
	for _, body := range []string{known, `{"items":[` + known + `,` + known + `]}`} {
		link := decode[struct {
			URL, ETag string
			Size      int
			Resumable bool
		}](s.send("POST", "/viewer/exports/links", body).want(201))
		path := "/viewer/exports/" + link.URL
		get := func(headers ...string) *response {
			s.Helper()
			return s.send("GET", path, "", append(headers, "x-api-key", "")...)
		}
		complete := get().want(200)
		if strings.HasPrefix(body, `{"items"`) && len(unzip(s.T, complete.body)) != 2 {
			s.Error("the zip of a link does not have two files")
		}
		if !link.Resumable {
			s.Log("the file has no validator, so links to it do not resume")
			continue
		}
		complete.wantHeader("ETag", link.ETag).wantHeader("Accept-Ranges", "bytes")
		if len(complete.body) != link.Size {
			s.Errorf("a link has %d bytes, want %d", len(complete.body), link.Size)
		}
		get("Range", "bytes=10-19").want(206).wantBody(complete.body[10:20])
		get("Range", "bytes=50-", "If-Range", link.ETag).want(206).wantBody(complete.body[50:])
		get("Range", "bytes=50-", "If-Range", `"other"`).want(200).wantBody(complete.body)
		get("Range", "bytes=-7").want(206).wantBody(complete.body[len(complete.body)-7:])
		get("Range", "bytes=9999999999999-").wantError(416, "range_not_satisfiable", "")
		get("If-None-Match", link.ETag).want(304).wantBody("")
		get("If-Match", `"other"`).wantError(412, "precondition_failed", "")
		s.send("HEAD", path, "", "x-api-key", "").want(200).wantHeader("ETag", link.ETag).wantBody("")
		if s.isProtected() {
			s.send("PATCH", "/admin/api-keys/"+s.keyID, `{"isActive":false}`).want(200)
			get().wantError(403, "forbidden", "")
			s.send("PATCH", "/admin/api-keys/"+s.keyID, `{"isActive":true}`).want(200)
			get("Range", "bytes=0-0").want(206)
		}
	}
}
