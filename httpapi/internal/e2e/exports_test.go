package e2e_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
)

// source is the address of a source file.
func source(name string) string { return "https://viewer.example/drawings/" + name }

func TestExports_areRegisteredAndDownloaded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t)
	s.export(source("plan"), "plan.pdf", []byte("the plan"))
	b := openWithClientKey(s, "exports")

	b.fill("Source", source("section"))
	b.fill("Exported file", filesURL+"plan.pdf")
	b.fill("File name (optional)", "Schnitt ä “1”.pdf")
	b.press("Register")
	b.sees("Registered.")
	b.wait(`e2e.field("Source").value === "" && document.activeElement === e2e.field("Source")`)
	is.Equal(eval[string](b, `e2e.field("Sources").value`), source("section")) // at hand
	found, err := s.exports.Find(t.Context(), source("section"))
	is.NoErr(err)
	is.Equal(found.ExportedURL, filesURL+"plan.pdf")

	b.press("Download")
	b.sees("Schnitt ä “1”.pdf, 8 B, is in your downloads.")
	is.Equal(string(b.downloaded("Schnitt ä “1”.pdf")), "the plan")

	b.fill("Source", source("section"))
	b.fill("Exported file", filesURL+"plan.pdf")
	b.press("Register")
	b.sees("The previous export was replaced.")
	b.fill("Source", source("x"))
	b.fill("Exported file", "http://127.0.0.1/x")
	b.press("Register")
	b.sees("Request rejected")
	b.sees("exportedUrl") // its own words
}

func TestExports_inAZip(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t)
	s.export(source("plan"), "plan.pdf", []byte("the plan"))
	s.export(source("large"), "large.bin", bytes.Repeat([]byte("0123456789abcdef"), 1<<16))
	s.export(source("lost"), "lost.pdf", nil)
	delete(s.files, "lost.pdf")
	b := openWithClientKey(s, "exports")
	b.fill("Sources", strings.Join([]string{source("plan"), source("nope"), "", "  " + source("large") + "  ", source("lost"), source("plan")}, "\n"))
	b.press("Download 5 files as a zip")
	b.sees("2 files skipped")
	b.sees("canvas-exports.zip, 1.0 MB, is in your downloads.")
	is.Equal(b.rows(), []string{source("nope") + " not registered", source("lost") + " file cannot be fetched"})
	content := b.downloaded("canvas-exports.zip")
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	is.NoErr(err)
	var names []string
	for _, file := range archive.File {
		names = append(names, file.Name)
	}
	is.Equal(names, []string{"plan.pdf", "large.bin", "plan-1.pdf", "manifest.json"})

	b.fill("Sources", strings.Join([]string{source("nope"), source("never")}, "\n"))
	b.press("Download 2 files as a zip")
	b.sees("No export is registered for this source.")
	b.sees("2 files skipped")

	b.fill("Sources", strings.Join([]string{source("plan"), source("large")}, "\n")) // nothing left out
	b.press("Download 2 files as a zip")
	b.lacks("skipped")
	b.sees("is in your downloads.")
}

func TestExports_asAddresses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := serve(t)
	s.export(source("plan"), "plan.pdf", []byte("x"))
	s.export(source("section"), "section.pdf", []byte("x"))
	b := openWithClientKey(s, "exports")
	b.press("Show the URLs of the files instead")
	b.fill("Sources", strings.Join([]string{source("nope"), source("plan"), source("nope"), source("section"), source("plan")}, "\n"))
	b.press("Show URLs")
	b.sees("section.pdf")
	is.Equal(b.rows(), []string{
		source("nope") + " not registered", source("plan") + " " + filesURL + "plan.pdf", source("nope") + " not registered",
		source("section") + " " + filesURL + "section.pdf", source("plan") + " " + filesURL + "plan.pdf",
	})
	b.fill("Sources", source("plan"))
	b.press("Show URLs")
	b.wait(`document.querySelectorAll("main tbody tr").length === 1`)
	is.Equal(eval[string](b, `document.querySelector("main tbody a").href`), filesURL+"plan.pdf")
}

// slowly is an opener of files that wait for the test between their halves.
type slowly struct {
	exports.Opener
	half chan struct{} // lets a second half go
	size int64
}

func (o slowly) Open(ctx context.Context, address *url.URL) (*exports.File, error) {
	file, err := o.Opener.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file.Body)
	if err != nil {
		return nil, err
	}
	half := len(content) / 2
	file.Size = o.size
	file.Body = io.NopCloser(io.MultiReader(bytes.NewReader(content[:half]), waiting{ctx, o.half}, bytes.NewReader(content[half:])))
	return file, nil
}

// waiting is an empty reader that ends when it may.
type waiting struct {
	ctx  context.Context
	done chan struct{}
}

func (w waiting) Read([]byte) (int, error) {
	select {
	case <-w.done:
		return 0, io.EOF
	case <-w.ctx.Done():
		return 0, w.ctx.Err()
	}
}

func TestExports_showHowFarTheyAre(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	for name, c := range map[string]struct {
		size  int64
		shows string
	}{
		"of a known size":    {size, "2.1 MB of 4.2 MB, 50 %"},
		"of an unknown size": {-1, "2.1 MB, total size unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := newSite(t)
			half := make(chan struct{})
			s.exports = exports.NewService(s.exportStore, &exports.Options{Openers: []exports.Opener{slowly{s.opener, half, c.size}}})
			s.listen(s.handler())
			s.export(source("large"), "large.bin", make([]byte, size))
			b := openWithClientKey(s, "exports")
			b.fill("Sources", source("large"))
			b.press("Download")
			b.sees(c.shows)
			is.Equal(eval[float64](b, `document.querySelector("progress").position`), map[bool]float64{true: 0.5, false: -1}[c.size > 0])
			close(half)
			b.sees("large.bin, 4.2 MB, is in your downloads.")
			is.Equal(len(b.downloaded("large.bin")), size)
		})
	}
}

func TestExports_areCancelled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	left := make(chan struct{})
	s.exports = exports.NewService(s.exportStore, &exports.Options{Openers: []exports.Opener{slowly{s.opener, nil, -1}}})
	handler := s.handler()
	s.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if strings.HasSuffix(r.URL.Path, "/download") {
				close(left)
			}
		}()
		handler.ServeHTTP(w, r)
	}))
	s.export(source("large"), "large.bin", make([]byte, 4<<20))
	b := openWithClientKey(s, "exports")
	b.fill("Sources", source("large"))
	b.press("Download")
	b.sees("total size unknown")
	b.press("Cancel")
	b.sees("Canceled.")
	b.wait(`!document.querySelector("progress") && !document.querySelector("[aria-busy]")`)
	select {
	case <-left: // the server stops too
	case <-time.After(patience):
		t.Error("the server goes on")
	}
}

// TestExports_thatBreakOff has a server that stops in the middle.
func TestExports_thatBreakOff(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSite(t)
	s.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/download") {
			w.Header().Set("Content-Length", "1000000")
			w.Write(make([]byte, 300_000))
			panic(http.ErrAbortHandler)
		}
		s.handler().ServeHTTP(w, r)
	}))
	b := openWithClientKey(s, "exports")
	b.fill("Sources", source("large"))
	b.press("Download")
	b.sees("The download was aborted after")
	b.sees("Nothing was saved.")
	is.Equal(eval[bool](b, `document.activeElement.classList.contains("problem")`), true)
}

func TestExports_areRegisteredWithTheAdminKeyWhereTheServerWantsIt(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithAdminKey })
	b := openWithClientKey(s, "exports")
	try := func() {
		b.fill("Source", source("plan"))
		b.fill("Exported file", filesURL+"plan.pdf")
		b.press("Register")
	}
	try()
	b.sees("x-admin-key is missing or sent more than once")
	b.press("Access client")
	b.wait(`e2e.field("Admin key")`)
	b.fill("Admin key", adminKey)
	b.pressNode(`e2e.field("Admin key").form.querySelector(".main")`)
	b.wait(`!document.querySelector("dialog") && e2e.field("Source").value === ""`)
	try()
	b.sees("Registered.")
}

// TestExports_fromAnotherOrigin is a viewer's page that downloads a file.
func TestExports_fromAnotherOrigin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	viewer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "<!doctype html><title>A viewer</title>")
	}))
	t.Cleanup(viewer.Close)
	s := serve(t, func(o *httpapi.Options) { o.AllowedOrigins = []string{viewer.URL} })
	s.export(source("plan"), "plan ä.pdf", []byte("the plan"))
	b := open(t, viewer.URL)
	download := func(address string) string {
		return eval[string](b, `fetch(`+quote(address)+`, {
			method: "POST",
			headers: { "Content-Type": "application/json", "x-api-key": `+quote(s.raw)+` },
			body: JSON.stringify({ sourceFileUrl: `+quote(source("plan"))+` }),
		}).then(async (response) => [response.status, response.headers.get("Content-Disposition"), response.headers.get("Content-Length"), await response.text()].join("|"), () => "refused")`)
	}
	is.Equal(download(s.url+"api/viewer/exports/download"), `200|attachment; filename="plan _.pdf"; filename*=UTF-8''plan%20%C3%A4.pdf|8|the plan`)

	stranger := serve(t) // which allows no origin
	stranger.export(source("plan"), "plan ä.pdf", []byte("the plan"))
	b.excuse("has been blocked by CORS policy")
	is.Equal(download(stranger.url+"api/viewer/exports/download"), "refused")
}

// TestExports_ofAnAPIElsewhere has the console on another origin than its API.
func TestExports_ofAnAPIElsewhere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var api http.Handler
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.ServeHTTP(w, r) }))
	t.Cleanup(elsewhere.Close)
	s.listen(s.console(elsewhere.URL))
	api = s.api(func(o *httpapi.Options) { o.AllowedOrigins = []string{strings.TrimSuffix(s.url, "/")} })
	s.export(source("plan"), "plan.pdf", []byte("the plan"))
	b := openWithClientKey(s, "exports")
	b.fill("Sources", source("plan"))
	b.press("Download")
	b.sees("plan.pdf, 8 B, is in your downloads.") // the name came across
	b.press("Keys")
	b.giveKey("Admin key", adminKey)
	b.sees("Test key")
}
