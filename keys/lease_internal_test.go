package keys

import (
	"testing"
	"time"

	"github.com/matryer/is"
)

// TestLease_EndsByBothClocks has a machine that was suspended, and a clock that was set back.
func TestLease_EndsByBothClocks(t *testing.T) {
	is := is.New(t)
	now := time.Now()
	is.True(!(&lease{expires: now.Add(time.Hour), wall: now.UnixNano()}).valid(now))
	is.True(!(&lease{expires: now, wall: now.UnixNano() + 1}).valid(now))
}
