package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/examples/internal/metrics"
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
	w := httptest.NewRecorder()
	metrics.New(clientKeys).Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	is.True(strings.Contains(w.Body.String(), "\ncanvasback_key_lease_age_seconds +Inf\n"))
}

func TestMetrics_FenceHasOneState(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := memory.New()
	clientKeys, err := keys.NewService(db.Keys(), nil)
	is.NoErr(err)
	meter := metrics.New(clientKeys)
	state := "partial"
	meter.AddFence(func() string { return state })
	states := []string{"off", "partial", "complete"}
	for _, state = range append(states, "") {
		w := httptest.NewRecorder()
		meter.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, s := range states {
			value := map[bool]int{true: 1}[s == state]
			is.True(strings.Contains(w.Body.String(), fmt.Sprintf("\ncanvasback_fence{state=%q} %d\n", s, value)))
		}
	}
}
