package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"example.com/canvasback/httpapi/apitest"
)

// gridIsBlank is true unless tiles cover the window, each with an image.
const gridIsBlank = `[0.4, 0.8].some((part) => !document.elementFromPoint(innerWidth / 2, innerHeight * part)?.closest(".grid")) ||
	[...document.querySelectorAll(".tile")].filter((tile) => tile.getBoundingClientRect().bottom > 0 && tile.getBoundingClientRect().top < innerHeight)
		.some((tile) => !tile.querySelector("img")?.complete)`

// TestFirefox_MainFlows does in Firefox what most users do. The other tests do more
// in Chromium.
func TestFirefox_MainFlows(t *testing.T) {
	s := startSite(t)
	s.failOnce("/symbols.js")
	var names []string
	for i := range 150 {
		names = append(names, fmt.Sprintf("Valve %d", i+1))
	}
	valves, vents := s.folder("Valves", names...), s.folder("Vents")
	s.RegisterExport(t, sourceURL("plan"), "plan ä.pdf", "the plan")
	b := openFirefox(t, s.url)

	b.enterKey("Admin key", "wrong")
	b.waitText("Key rejected")
	b.enterKey("Admin key", apitest.AdminKey)
	b.waitText("1 key", "Most used keys")
	ground := func(theme string) string {
		b.firefox.setTheme(theme)
		equal(b, lowContrast, []string{})
		return eval[string](b, `getComputedStyle(document.body).backgroundColor`)
	}
	s.is.Equal(ground("dark"), "rgb(23, 21, 19)")
	s.is.Equal(ground("light"), "rgb(246, 242, 235)")

	b.click("Keys")
	b.waitText("1 key")
	b.click("Create key")
	b.fill("Name", "Kiosk")
	b.click("90 days", "Create key")
	b.waitText("Store the key of Kiosk now.")
	b.click("Copy key")
	b.waitText("Copied.")
	b.click("Use it in this console", "Done")
	b.fill("Search by name, owner, id or scope", "kio")
	b.waitText("1 of 2 keys")
	equal(b, texts(".records .name"), []string{"Kiosk"})
	b.fill("Search by name, owner, id or scope", "")
	b.waitText("2 keys")
	b.click("More for apitest")
	b.typeKeys(kb.ArrowUp) // the last entry
	b.typeKeys(kb.Enter)
	b.click("Delete key")
	b.waitText("apitest deleted.")
	s.is.True(!s.accepts(string(s.RawKey)))

	b.ignoreProblem("symbols.js")
	b.click("Symbols", "Retry")
	b.waitText("150 symbols")
	b.wait("!(" + gridIsBlank + ")")
	eval[bool](b, `(scrollTo(0, document.body.scrollHeight), true)`)
	b.wait(`document.getElementById("tile-150") && !(` + gridIsBlank + `)`)
	s.is.True(eval[int](b, `document.querySelectorAll(".tile").length`) < 100)
	b.click("Valve 150")
	b.waitText("40 × 20")
	b.click("Previous symbol")
	b.wait(`document.querySelector("dialog h2").innerText === "Valve 149"`)
	b.click("Close")
	b.waitFocus(`document.getElementById("symbol-149")`)
	b.typeKeys(" " + kb.ArrowRight + " ")
	b.moveSelectedAndUndo(s, vents)
	b.waitText("150 symbols")
	s.is.Equal(len(s.symbolsIn(vents.ID)), 0)
	b.click("Actions for Valve 150", "Delete…", "Delete symbol")
	b.waitText("149 symbols")

	b.createFolder("Fans")
	b.waitText("This folder is empty")
	b.chooseFiles(`document.querySelector("input[type=file][multiple]")`, b.writeFile("drawn.png", pngImage(2, 1)), b.writeFile("notes.txt", []byte("text")))
	b.waitText("notes.txt: documentation", "1 symbol")
	b.chooseFiles(`document.querySelector("input[type=file]:not([multiple])")`, b.writeFile("more.zip", archive(t, "Ball valve.svg", svgImage)))
	b.click("Import 1 symbol")
	b.waitText("1 symbol imported into Fans.")
	b.click("Folder actions", "Export as zip")
	s.is.True(strings.HasPrefix(string(b.downloaded("Fans.zip")), "PK"))
	b.click("Folder actions", "Delete folder…", "Delete folder and 2 symbols")
	b.wait(`document.getElementById("title").innerText === "Valves"`)
	s.is.Equal(len(s.symbolsIn(valves.ID)), 149)

	b.click("Exports")
	b.clickNode(`e2e.field(` + quote("Select "+sourceURL("plan")) + `)`)
	b.click("Download")
	b.waitText("plan ä.pdf, 8 B, is in your browser's downloads.")
	s.is.Equal(string(b.downloaded("plan ä.pdf")), "the plan")

	b.click("API")
	b.fill("Search operations", "rotate")
	b.clickNode(`document.querySelector(".operation:not([hidden]) summary")`)
	b.waitText("With curl")
	b.click("Overview")
	b.waitText("1 export")
}

// TestFirefox_LinkFromOtherOrigin downloads from a page of a viewer, which outlives a failed
// download.
func TestFirefox_LinkFromOtherOrigin(t *testing.T) {
	s, viewerURL := startSiteOfViewer(t)
	s.RegisterExport(t, sourceURL("plan"), "plan.pdf", "the plan")
	b := openFirefox(t, viewerURL)
	download := `import("` + s.url + `api/client.js").then(({ createClient }) =>
		createClient({ getToken: () => fetch("/token") }).download({ sourceFileUrl: ` + quote(sourceURL("plan")) + ` }))`
	eval[any](b, download)
	b.waitFor(s.hasFailed, "the download that fails")
	eval[any](b, download)
	s.is.Equal(string(b.downloaded("plan.pdf")), "the plan")
	equal(b, `document.title`, "A viewer")
}
