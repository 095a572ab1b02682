package httpapi

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

func TestPause_LeavesTimeToOtherRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		a, err := New(Options{})
		is.NoErr(err)
		pause := a.pause()
		paused := func(worked time.Duration) time.Duration {
			time.Sleep(worked)
			start := time.Now()
			pause()
			return time.Since(start)
		}
		is.Equal(paused(10*time.Millisecond), time.Duration(0)) // no other request
		a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/openapi.json", nil))
		is.Equal(paused(10*time.Millisecond), 30*time.Millisecond)
		is.Equal(paused(10*time.Millisecond), time.Duration(0))
		a.arrived.Add(1)
		is.Equal(paused(500*time.Microsecond), time.Duration(0))
		is.Equal(paused(500*time.Microsecond), 3*time.Millisecond) // for both
	})
}
