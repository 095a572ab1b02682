package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/matryer/is"
)

// startPicker returns a site with the example beside the API, and the fragment with
// the client key, which the page would get from its application.
func startPicker(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", s.api()))
	mux.Handle("/", http.FileServer(http.Dir("../../../examples/picker")))
	s.listen(mux)
	return s
}

func TestPicker_ShowsImages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startPicker(t)
	for i := range 3 {
		var names []string
		for j := range 70 {
			names = append(names, fmt.Sprintf("Valve %d-%d", i, j))
		}
		s.folder(fmt.Sprint("folder ", i), names...)
	}
	s.symbol(1, "Not an image", "text/plain", "text")
	b := openTab(t, s.url+"#base=/api/&key="+string(s.RawKey))
	b.ignoreProblem("key in the URL")
	b.waitText("211 symbols")
	b.wait(`document.querySelector("img").naturalWidth > 0`)
	is.True(eval[int](b, `[...document.images].filter((image) => image.src).length`) < 211) // the others are not in view
	b.fill("Search", "vALVE 1-6")
	b.waitText("11 symbols")
	b.wait(`[...document.images].every((image) => image.naturalWidth > 0)`)
	b.fill("Search", "not an")
	b.waitText("no image")
	b.ignoreProblem("404")
}

// TestPicker_AddsStamps runs the example with a double that records the calls of the
// SDK.
func TestPicker_AddsStamps(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startPicker(t)
	s.folder("folder", "Gate valve")
	s.symbol(1, "A note", "text/plain", "no image, which is skipped")
	s.symbol(1, "Globe valve", "image/svg+xml", imageData("Globe valve", "image/svg+xml", svgImage))
	b := openTab(t, s.url)
	b.ignoreProblem("401")
	got := eval[[]string](b, `(async () => {
		const { Symbols } = await import("/symbols.js");
		const { addStamps } = await import("/nutrient.js");
		class Rect { constructor(values) { Object.assign(this, values); } }
		class ImageAnnotation { constructor(values) { Object.assign(this, values); } }
		const attachments = [];
		let templates = ["default"];
		await addStamps({ Annotations: { ImageAnnotation }, Geometry: { Rect } }, {
			async createAttachment(blob) { return "attachment " + attachments.push((await createImageBitmap(blob)).width); },
			setStampAnnotationTemplates(change) { templates = change(templates); },
		}, new Symbols("/api/", "`+string(s.RawKey)+`"), 1);
		return templates.map((t) => t.boundingBox ? [t.description, t.contentType, t.imageAttachmentId, t.boundingBox.width > 0].join() : t);
	})()`)
	is.Equal(got, []string{"default", "Gate valve,image/png,attachment 1,true", "Globe valve,image/png,attachment 2,true"})
}
