package linkserve

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// TestWatch_CheckEnds has a check that returns before stop, or after it: another request may
// have the connection then.
func TestWatch_CheckEnds(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			unblock, canceled := make(chan struct{}), false
			k := watchKey(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), Options{CheckKey: func() error {
				<-unblock
				return ErrRevoked
			}}, func() { canceled = true })
			k.sending = true
			time.Sleep(watchInterval)
			synctest.Wait()
			if stopped {
				k.stop()
			}
			close(unblock)
			synctest.Wait()
			is.New(t).Equal(canceled, !stopped)
		})
	}
}
