package httpapi

import (
	"net/http/httptest"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi/internal/budget"
)

// TestBodyMemory_TryGrowDoesNotExceed: others would wait for a memory that exceeds the budget.
func TestBodyMemory_TryGrowDoesNotExceed(t *testing.T) {
	is := is.New(t)
	a := &API{memory: budget.New[client](1 << 20)}
	of := func(keyID int64) *bodyMemory {
		return &bodyMemory{call: &call{api: a, keyID: keyID, r: httptest.NewRequest("GET", "/", nil)}}
	}
	m := of(1)
	is.True(m.TryGrow(100 << 10))
	is.True(of(2).TryGrow(512 << 10))
	is.True(!m.TryGrow(400 << 10))
	is.Equal(m.Size(), int64(100<<10))
}
