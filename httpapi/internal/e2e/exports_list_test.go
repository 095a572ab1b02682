package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
)

// openExportList opens the exports screen with both keys.
func openExportList(s *site) *tab {
	s.t.Helper()
	b := openTab(s.t, s.url+"#/exports")
	b.enterBothKeys(s)
	return b
}

const listedSources = `[...document.querySelectorAll(".records .name")].map((one) => one.innerText)`

func TestExportList_PagesAndSearches(t *testing.T) {
	s := startSite(t)
	var want []string
	for i := range 60 {
		source := sourceURL(fmt.Sprintf("plan-%02d 100%%", i))
		s.register(source, apitest.FilesURL+"plan.pdf")
		want = append(want, source)
	}
	b := openExportList(s)
	b.waitText("60 exports", "1–50 of 60")
	equal(b, listedSources, want[:50])
	b.click("Next page")
	b.waitText("51–60 of 60")
	equal(b, listedSources, want[50:])
	b.chooseOption("Order", "Newest first")
	b.waitText("1–50 of 60")
	s.is.Equal(eval[[]string](b, listedSources)[0], want[59])
	equal(b, `location.hash`, "#/exports?order=Newest+first")
	b.chooseOption("Order", "Oldest first")

	b.fill("Search sources", "plan-1")
	b.wait(listedSources + `.length === 10`)
	equal(b, listedSources, want[10:20])
	b.fill("Search sources", "7 100%")
	b.wait(listedSources + `.length === 6`)
	b.visit(s.url + "?" + eval[string](b, `location.hash`)) // is in the URL
	b.wait(`e2e.field("Sources")`)
	equal(b, `document.querySelector("main [type=search]").value`, "7 100%")
	b.enterBothKeys(s)
	b.wait(listedSources + `.length === 6`)
	b.fill("Search sources", "PLAN-1")
	b.waitText("No source matches")
}

// TestExportList_TurnsPages searches on a later page, and opens a page behind what is loaded.
func TestExportList_TurnsPages(t *testing.T) {
	s := startSite(t)
	for i := range 1010 {
		s.register(sourceURL(fmt.Sprintf("plan-%04d", i)), apitest.FilesURL+"plan.pdf")
	}
	b := openTab(t, s.url+"#/exports?page=21")
	b.enterBothKeys(s)
	b.waitText("951–1000 of 1,000")
	b.click("Previous page")
	b.waitText("901–950 of 1,000")
	b.fill("Search sources", "plan-09") // 100 exports
	b.waitText("1–50 of 100")
}

func TestExportList_ChecksAndRemoves(t *testing.T) {
	s := startSite(t)
	s.RegisterExport(t, sourceURL("plan"), "plan.pdf", "the plan")
	s.register(sourceURL("lost"), apitest.FilesURL+"lost.pdf?token=secret")
	b := openExportList(s)
	b.click("Check " + sourceURL("plan"))
	b.waitText("plan.pdf, 8 B, application/pdf, resumable")
	b.click("Check " + sourceURL("lost"))
	b.waitText(apitest.FilesURL + "lost.pdf does not exist")

	b.click("More for "+sourceURL("lost"), "Remove…")
	b.waitText("Remove this export?")
	b.click("Cancel")
	s.export(sourceURL("lost")) // is there
	b.click("More for "+sourceURL("lost"), "Remove…", "Remove")
	b.wait(listedSources + `.length === 1`)
	_, err := s.Exports.Find(t.Context(), sourceURL("lost"))
	s.is.Equal(err, exports.ErrNotFound)
}

// TestExportList_ChecksEndWithTheKey gets a 401 for one of the six checks that run at once.
func TestExportList_ChecksEndWithTheKey(t *testing.T) {
	var checks atomic.Int64
	s := startSiteBehind(t, func(w http.ResponseWriter, r *http.Request) (isCheck bool) {
		if isCheck = strings.HasSuffix(r.URL.Path, "/check"); !isCheck {
			return false
		}
		if checks.Add(1) == 1 {
			http.Error(w, `{"message":"unknown key"}`, http.StatusUnauthorized)
		} else {
			time.Sleep(300 * time.Millisecond)
			http.Error(w, `{"message":"broken"}`, http.StatusInternalServerError)
		}
		return true
	})
	for i := range 30 {
		s.register(fmt.Sprint("source ", i), apitest.FilesURL+"lost.pdf")
	}
	b := openExportList(s)
	b.click("Check all")
	b.waitText("6 of 30 failed", "24 more skipped")
	s.is.Equal(checks.Load(), int64(6))
}

// TestExportList_BrokenFilesAreFoundAndChanged checks a list, and gives the one export
// whose file is gone another file.
func TestExportList_BrokenFilesAreFoundAndChanged(t *testing.T) {
	s := startSite(t)
	for _, name := range []string{"a", "b"} {
		s.RegisterExport(t, sourceURL(name), name+".pdf", "file "+name)
	}
	s.register(sourceURL("lost"), apitest.FilesURL+"lost.pdf")
	b := openExportList(s)
	b.wait(listedSources + `.length === 3`)
	shown := `[...document.querySelectorAll(".records .name")].filter((one) => one.checkVisibility()).map((one) => one.innerText)`
	b.clickNode(`e2e.field("Not available")`)
	b.waitText("No broken file")
	b.click("Check all")
	b.waitText("3 files checked, 1 not available.")
	b.wait(shown + `.length === 1`)
	equal(b, shown, []string{sourceURL("lost")})

	b.click("More for "+sourceURL("lost"), "Change file…")
	equal(b, `[...document.querySelectorAll("dialog input")].map((one) => one.value)`, []string{sourceURL("lost"), apitest.FilesURL + "lost.pdf", ""})
	b.wait(`e2e.field("Source").readOnly`)
	empty := func() {
		b.click("Register…")
		equal(b, `[...document.querySelectorAll("dialog input")].map((one) => one.value + one.readOnly)`, []string{"false", "false", "false"})
	}
	b.click("Cancel")
	empty()
	b.click("Cancel", "More for "+sourceURL("lost"), "Change file…")
	b.fill("Exported file", apitest.FilesURL+"a.pdf")
	s.Clock.Add(time.Minute)
	b.click("Change")
	b.waitText("No broken file", "The previous export was replaced.")
	s.is.Equal(s.export(sourceURL("lost")).ExportedURL, apitest.FilesURL+"a.pdf")
	b.click("Check all")
	b.waitText("3 files checked, 0 not available.", "No broken file")
	empty()
}

func TestExportList_DownloadsSelection(t *testing.T) {
	s := startSite(t)
	for _, name := range []string{"a", "b", "c"} {
		s.RegisterExport(t, sourceURL(name), name+".pdf", "file "+name)
	}
	b := openExportList(s)
	b.clickNode(`e2e.field(` + quote("Select "+sourceURL("c")) + `)`)
	b.clickNode(`e2e.field(` + quote("Select "+sourceURL("a")) + `)`)
	equal(b, `e2e.field("Sources").value`, sourceURL("c")+"\n"+sourceURL("a"))
	b.click("Download 2 files as a zip")
	b.waitText("canvas-exports.zip")
	s.is.Equal(b.downloadedNames("canvas-exports.zip"), []string{"c.pdf", "a.pdf"})

	// The field and the boxes agree.
	b.fill("Sources", sourceURL("b"))
	equal(b, `[...document.querySelectorAll(".records input")].map((one) => one.checked)`, []bool{false, true, false})
	b.click("More for " + sourceURL("c"))
	b.clickNode(`[...document.querySelectorAll("[role=menuitem]")].find((one) => one.innerText === "Download")`)
	b.waitText("c.pdf, 6 B, is in your browser's downloads.")
	s.is.Equal(string(b.downloaded("c.pdf")), "file c")

	b.registerExport(sourceURL("d"), apitest.FilesURL+"a.pdf") // a new export is in the list and selected
	b.wait(listedSources + `.length === 4`)
	b.wait(`[...document.querySelectorAll(".records input")].at(-1).checked`)
}

// tableRows returns the text of the table rows of the screen.
func (b *tab) tableRows() []string {
	b.t.Helper()
	return eval[[]string](b, `[...document.querySelectorAll("main tbody tr")].map((row) => row.innerText.replace(/\s+/g, " "))`)
}

func TestExportList_ChangesKeepTheTenant(t *testing.T) {
	t.Parallel()
	t.Run("admin key", func(t *testing.T) {
		changesKeepTheTenant(t, func(*httpapi.Options) {}, func(b *tab, _ string) {
			b.click("Enter the admin key")
			b.enterInDialog("Admin key", apitest.AdminKey)
		})
	})
	t.Run("login, and the client key of another tenant", func(t *testing.T) {
		changesKeepTheTenant(t, loggedIn, func(b *tab, keyOfBeta string) {
			b.click("Access")
			b.enterInDialog("Client key", keyOfBeta)
			b.wait(`!document.querySelector("dialog")`)
		})
	})
}

// changesKeepTheTenant changes an export of a tenant with the credentials that enter enters.
func changesKeepTheTenant(t *testing.T, configure func(*httpapi.Options), enter func(b *tab, keyOfBeta string)) {
	s := startSite(t, configure, func(o *httpapi.Options) { o.Tenant, o.RegisterWith = httpapi.TenantOfOwner, httpapi.RegisterWithScope })
	scopes := s.scopes(httpapi.ScopeExportsRegister)
	beta := s.createKey("key of beta", keys.Fields{Owner: new("beta"), Scopes: &scopes})
	s.createKey("key of acme", keys.Fields{Owner: new("acme")})
	acme := s.Exports.Tenant("acme")
	_, _, err := acme.Register(t.Context(), exports.Registration{SourceURL: "plan", ExportedURL: apitest.FilesURL + "plan.pdf", FileName: new("a.pdf")})
	s.is.NoErr(err)
	b := openTab(t, s.url+"#/exports")
	enter(b, string(beta.Raw))
	b.waitText("1 export")
	b.click("More for plan", "Remove…", "Remove")
	b.waitText("Removed.", "No exports yet")
	_, err = acme.Find(t.Context(), "plan")
	s.is.Equal(err, exports.ErrNotFound)
	b.undo("1 export")
	export, err := acme.Find(t.Context(), "plan")
	s.is.NoErr(err)
	s.is.Equal(export.FileName, "a.pdf")
	b.click("More for plan", "Change file…")
	b.fill("Exported file", apitest.FilesURL+"new.pdf")
	b.click("Change")
	b.waitText("Registered.")
	export, err = acme.Find(t.Context(), "plan")
	s.is.NoErr(err)
	s.is.Equal(export.ExportedURL, apitest.FilesURL+"new.pdf")
}
