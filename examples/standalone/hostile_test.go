//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

var (
	hostileFlag = flag.Duration("hostile", 0, "duration of TestHostileClient per storage driver; it asserts ratios from a minute on")
	attacksFlag = flag.String("attacks", "123456789abcdef", "attacks of TestHostileClient")
	thinkFlag   = flag.Duration("think", 20*time.Millisecond, "mean pause of a client of TestHostileClient after a request")
)

const (
	honestClients = 19
	memoryLimit   = 512 << 20
)

// TestHostileClient runs the program with 512 MiB of memory. It compares what honest
// clients get while another client key attacks with what they get while it attacks another
// instance on the machine. It fails if the program is killed, or if an honest request gets
// an error or a truncated response.
func TestHostileClient(t *testing.T) {
	if *hostileFlag == 0 {
		testflag.SkipUnlessThorough(t)
	}
	t.Run("sqlite", func(t *testing.T) {
		newHostileTest(t, "sqlite:"+filepath.Join(t.TempDir(), "hostile.db")).run()
	})
	t.Run("postgres", func(t *testing.T) {
		if *hostileFlag == 0 {
			t.Skip("the program decides with any storage; -hostile runs both")
		}
		newHostileTest(t, pgtest.Start(t).DSN()).run()
	})
}

// hostileTest is the program with honest clients and a hostile one.
type hostileTest struct {
	*soak
	group   *memoryGroup // nil if the machine does not allow it
	files   *httptest.Server
	clients []*honestClient
	hostile *hostileClient
	other   *hostileClient           // of another instance
	elapsed map[string]time.Duration // by phase
}

// Phases of the test. They are prefixes of the kinds of requests.
const (
	phaseAlone    = "alone"
	phaseAttacked = "attacked"
)

func newHostileTest(t *testing.T, databaseURL string) *hostileTest {
	h := &hostileTest{
		soak:    newSoak(t, databaseURL),
		files:   httptest.NewServer(http.HandlerFunc(serveDrawing)),
		elapsed: make(map[string]time.Duration),
	}
	t.Cleanup(h.files.Close)
	h.env = append(h.env, h.limits()...)
	h.client.Timeout = 2 * time.Minute // a loaded machine is no failure
	if h.group = newMemoryGroup(t, memoryLimit); h.group != nil {
		h.command = h.group.command(h.command[0])
	} else {
		h.env = append(h.env, "GOMEMLIMIT="+strconv.Itoa(memoryLimit/5*4))
	}
	h.calm.Store(true) // every unexpected response is a failure
	return h
}

// limits returns variables of both instances.
func (h *hostileTest) limits() []string {
	return []string{"EXPORT_ALLOWED_HOSTS=" + strings.TrimPrefix(h.files.URL, "http://"), "DEMO=false"}
}

// run measures the honest clients in turn beside attacks on the other instance and on theirs.
func (h *hostileTest) run() {
	h.start()
	defer h.kill()
	other := newSoak(h.t, "memory:")
	other.env = append(other.env, h.limits()...)
	other.start()
	defer other.kill()
	h.prepare(other)
	phase, phases := time.Second, 2
	if *hostileFlag > 0 {
		phase, phases = *hostileFlag/8, 8
	}
	h.measure("warm up", phase/4)
	for i := range phases {
		hostile, name := h.other, phaseAlone
		if i%2 == 1 {
			hostile, name = h.hostile, phaseAttacked
		}
		ctx, stop := context.WithCancel(h.t.Context())
		ended := hostile.attack(ctx, *attacksFlag)
		for deadline := time.Now().Add(time.Minute); hostile.rejected() == 0 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(phase / 4)
		h.measure(name, phase)
		stop()
		ended.Wait()
		time.Sleep(phase / 4) // the program notices
	}
	h.check()
}

// prepare creates the keys, symbols and exports of all clients.
func (h *hostileTest) prepare(other *soak) {
	h.hostile, h.other = newHostileClient(h.soak, h.files.URL), newHostileClient(other, h.files.URL)
	h.hostile.prepare()
	h.other.prepare()
	var working sync.WaitGroup
	for i := range honestClients {
		client := newHonestClient(h, i)
		h.clients = append(h.clients, client)
		working.Go(client.prepare)
	}
	working.Wait()
	if h.t.Failed() {
		h.t.FailNow()
	}
}

// measure runs the honest clients for d.
func (h *hostileTest) measure(phase string, d time.Duration) {
	ctx, stop := context.WithTimeout(h.t.Context(), d)
	defer stop()
	start := time.Now()
	var working sync.WaitGroup
	for _, client := range h.clients {
		working.Go(func() { client.work(ctx, phase) })
	}
	working.Wait()
	h.elapsed[phase] += time.Since(start)
}

// check compares the phases and looks at the memory of the program.
func (h *hostileTest) check() {
	h.tallies.report(h.t, h.elapsed[phaseAlone]+h.elapsed[phaseAttacked])
	h.hostile.results.report(h.t, h.elapsed[phaseAttacked])
	throughput := func(phase string) float64 {
		return float64(len(h.tallies.merged(phase).durations)) / h.elapsed[phase].Seconds()
	}
	measured := *hostileFlag >= time.Minute
	alone, attacked := throughput(phaseAlone), throughput(phaseAttacked)
	h.t.Logf("requests a second: %.0f alone, %.0f attacked, ratio %.2f", alone, attacked, attacked/alone)
	if measured && attacked < 0.8*alone {
		h.t.Error("throughput is below 0.8 of that without the hostile client")
	}
	for _, class := range []string{" browse", " download", ""} {
		before, after := h.tallies.merged(phaseAlone+class), h.tallies.merged(phaseAttacked+class)
		for _, q := range []float64{0.5, 0.99, 0.999} {
			ratio := float64(after.quantile(q)) / float64(before.quantile(q))
			h.t.Logf("%9s p%-4v: %v alone, %v attacked, ratio %.2f", class, 100*q, before.quantile(q), after.quantile(q), ratio)
			if measured && q == 0.99 && ratio > 2 {
				h.t.Errorf("p99 of%s requests is above twice that without the hostile client", cmp.Or(class, " all"))
			}
		}
	}
	if h.hostile.rejected() == 0 {
		h.t.Error("no request of the hostile client was rejected")
	}

	h.send("alive", "GET", "/openapi.json", "", []int{200})
	_, peak := residentMemory(h.process.Process.Pid)
	killed := "0"
	if h.group != nil {
		killed = h.group.kills()
	}
	h.t.Logf("peak of resident memory: %d MiB; in a cgroup: %t", peak, h.group != nil)
	if killed != "0" || peak > memoryLimit>>20 {
		h.t.Errorf("the program uses %d MiB and was killed %s times", peak, killed)
	}
}

// Sizes of the files of the origin server, by the directory in their paths.
var drawingSizes = map[string]int64{"small": 100 << 10, "medium": 1 << 20, "large": 256 << 20}

// drawing is the content of the files of the origin server, again and again.
var drawing = bytes.Repeat([]byte("canvasback drawing\n"), 4<<10)

// serveDrawing is an origin server with a latency of 5 to 50 ms.
func serveDrawing(w http.ResponseWriter, r *http.Request) {
	var directory string
	var number int64
	fmt.Sscanf(strings.Replace(r.URL.Path, "/", " ", 2), " %s %d", &directory, &number)
	select {
	case <-time.After(time.Duration(5+number*7%46) * time.Millisecond):
	case <-r.Context().Done():
		return
	}
	w.Header().Set("ETag", `"`+r.URL.Path+`"`)
	w.Header().Set("Content-Type", "application/pdf")
	http.ServeContent(w, r, "", time.Time{}, &repeatedReader{size: drawingSizes[directory]})
}

// repeatedReader is a file of size bytes that repeats drawing.
type repeatedReader struct{ size, offset int64 }

func (r *repeatedReader) Read(p []byte) (int, error) {
	if r.offset >= r.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.size-r.offset)]
	n := copy(p, drawing[r.offset%int64(len(drawing)):])
	r.offset += int64(n)
	return n, nil
}

func (r *repeatedReader) Seek(offset int64, whence int) (int64, error) {
	r.offset = offset + [...]int64{0, r.offset, r.size}[whence]
	return r.offset, nil
}
