package metrics_test

import (
	"database/sql"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/examples/internal/metrics"
	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// TestMetrics_AreDocumented compares the exported metrics with the package comment.
func TestMetrics_AreDocumented(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := memory.New()
	clientKeys, err := keys.NewService(db.Keys(), nil)
	is.NoErr(err)
	fetcher, err := fetch.New(nil)
	is.NoErr(err)
	m := metrics.New(clientKeys, exports.NewService(db.Exports(), nil), fetcher)
	m.AddPool(func() sql.DBStats { return sql.DBStats{} })
	m.Observe(t.Context(), httpapi.Observation{Aborted: true}) // a vector is exported once it has a value
	families, err := m.Gather()
	is.NoErr(err)
	var exported, documented []string
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "canvasback_") {
			exported = append(exported, family.GetName())
		}
	}
	source, err := os.ReadFile("metrics.go")
	is.NoErr(err)
	for _, line := range regexp.MustCompile(`(?m)^//\t(canvasback_\S+)`).FindAllStringSubmatch(string(source), -1) {
		documented = append(documented, line[1])
	}
	slices.Sort(documented)
	is.Equal(documented, exported)
}

// countingOpener is an opener with statistics.
type countingOpener struct {
	exports.Opener
	stats fetch.Stats
}

func (o countingOpener) Stats() fetch.Stats { return o.stats }

func TestMetrics_AddOpeners(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := memory.New()
	clientKeys, err := keys.NewService(db.Keys(), nil)
	is.NoErr(err)
	m := metrics.New(clientKeys, exports.NewService(db.Exports(), nil),
		countingOpener{stats: fetch.Stats{Attempts: 1, Retries: 2, Resumes: 3}},
		struct{ exports.Opener }{}, // has none
		countingOpener{stats: fetch.Stats{Attempts: 10, Retries: 20, Resumes: 30}})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{"attempts_total 11", "retries_total 22", "resumes_total 33"} {
		is.True(strings.Contains(w.Body.String(), "\ncanvasback_fetch_"+line+"\n"))
	}
}
