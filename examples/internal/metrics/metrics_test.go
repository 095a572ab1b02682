package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/examples/internal/metrics"
	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// An alert on a lease age above a limit must fire without a lease too.
func TestMetrics_LeaseAgeIsInfiniteWithoutLease(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := memory.New()
	clientKeys, err := keys.NewService(db.Keys(), nil) // Run is not called
	is.NoErr(err)
	exportService, err := exports.NewService(db.Exports(), nil)
	is.NoErr(err)
	w := httptest.NewRecorder()
	metrics.New(clientKeys, exportService).Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	is.True(strings.Contains(w.Body.String(), "\ncanvasback_key_lease_age_seconds +Inf\n"))
}
