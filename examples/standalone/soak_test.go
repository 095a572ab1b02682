package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/canvasback/storage/postgres/pgtest"
)

var soakFlag = flag.Duration("soak", 3*time.Second, "how long TestSoak puts load on each storage")

// TestSoak runs the built program under load for a while: all routes, keys that
// are revoked in use, clients that leave, and faults that hit the program or
// its database. It fails if a revoked key is taken, if something acknowledged
// is lost, if an answer is torn or unexpected, or if memory goes on growing.
func TestSoak(t *testing.T) {
	program := filepath.Join(t.TempDir(), "standalone")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("sqlite", func(t *testing.T) {
		s := newSoak(t, program, "sqlite:"+filepath.Join(t.TempDir(), "soak.db"))
		s.run(*soakFlag, []func(){
			s.crash,
			func() { s.freeze(time.Second) },
		})
	})
	t.Run("postgres", func(t *testing.T) {
		database := pgtest.Start(t)
		s := newSoak(t, program, database.DSN())
		s.run(*soakFlag, []func(){
			func() { database.Kill(); database.Restart() },
			func() { database.Pause(); time.Sleep(time.Second); database.Resume() },
			s.crash,
		})
	})
}

// soak is the program under load.
type soak struct {
	t       *testing.T
	program string
	env     []string
	url     string
	client  *http.Client
	tallies tallies

	process *exec.Cmd
	faults  int
	calm    atomic.Bool // no fault is under way, nor has been for a moment
}

const soakAdminKey = "an admin key for the soak"

func newSoak(t *testing.T, program, databaseURL string) *soak {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String() // the same after a crash
	listener.Close()
	s := &soak{
		t:       t,
		program: program,
		env:     []string{"ADDR=" + address, "DATABASE_URL=" + databaseURL, "ADMIN_API_KEY=" + soakAdminKey, "LOG_LEVEL=error"},
		url:     "http://" + address + "/api",
		client:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second},
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start runs the program until it answers.
func (s *soak) start() {
	s.process = exec.Command(s.program)
	s.process.Env = append(os.Environ(), s.env...)
	s.process.Dir = s.t.TempDir()
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		response, err := s.client.Get(strings.TrimSuffix(s.url, "/api") + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
	}
	s.t.Fatal("the program does not answer")
}

func (s *soak) kill() {
	s.process.Process.Kill()
	s.process.Wait()
}

// crash ends the program as a power cut would, and starts it again.
func (s *soak) crash() {
	s.kill()
	s.start()
}

// freeze stops the program for a while without ending it.
func (s *soak) freeze(d time.Duration) {
	s.process.Process.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	s.process.Process.Signal(syscall.SIGCONT)
}

// run puts load on the program, with the faults in turn.
func (s *soak) run(duration time.Duration, faults []func()) {
	before, _ := residentMemory(s.process.Process.Pid)
	ctx, stop := context.WithTimeout(s.t.Context(), duration)
	defer stop()
	start := time.Now()
	s.calm.Store(true)
	var working sync.WaitGroup
	for i := range 8 {
		working.Go(func() { s.work(ctx, i) })
	}
	const settle = 500 * time.Millisecond
	pause := max(duration/time.Duration(2*len(faults)+1), settle)
	for {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if ctx.Err() != nil {
			break
		}
		s.calm.Store(false)
		faults[s.faults%len(faults)]()
		s.faults++
		time.Sleep(settle)
		s.calm.Store(true)
	}
	working.Wait()
	elapsed := time.Since(start)

	s.tallies.report(s.t, elapsed)
	s.client.CloseIdleConnections()
	after, most := residentMemory(s.process.Process.Pid)
	s.t.Logf("%d faults; memory of the program: %d MiB before, %d MiB after, %d MiB at most since its last start", s.faults, before, after, most)
	if s.faults == 0 {
		s.t.Error("no fault has happened")
	}
	if most > 400 {
		s.t.Errorf("the program took %d MiB", most)
	}
}

// outcome is an answer, or the reason why there is none.
type outcome struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// unknown reports whether a change may have been made or not.
func (o outcome) unknown() bool { return o.err != nil || o.status >= 500 }

// send makes a request and notes how it went. What is not among the expected
// statuses is an error while there is no fault.
func (s *soak) send(kind, method, path, body string, expected []int, headers ...string) outcome {
	calm := s.calm.Load()
	request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return outcome{err: err}
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	start := time.Now()
	response, err := s.client.Do(request)
	var out outcome
	if err == nil {
		out.status, out.header = response.StatusCode, response.Header
		out.body, out.err = io.ReadAll(response.Body)
		response.Body.Close()
	} else {
		out.err = err
	}
	end := fmt.Sprint(out.status)
	switch {
	case out.err == nil:
	case errors.Is(out.err, syscall.ECONNREFUSED):
		end = "refused"
	case out.status != 0:
		end = "torn"
	default:
		end = "no answer"
	}
	s.tallies.add(kind, end, time.Since(start))
	good := out.err == nil
	if good {
		good = false
		for _, status := range expected {
			good = good || status == out.status
		}
	}
	if !good && calm && s.calm.Load() {
		s.t.Errorf("%s: %s %s: %s %v %.200s", kind, method, path, end, out.err, out.body)
	}
	return out
}

// work is a client with a key and a folder of its own.
func (s *soak) work(ctx context.Context, number int) {
	random := rand.New(rand.NewPCG(uint64(number), 1))
	w := &worker{soak: s, random: random, data: make(map[int64]string)}
	for ctx.Err() == nil && !w.prepare(number) {
		time.Sleep(50 * time.Millisecond)
	}
	jobs := []func(){
		w.listFolders, w.listSymbols, w.listSymbols, w.listSymbols, w.getSymbol, w.getSymbol, w.createSymbol, w.createSymbol,
		w.changeSymbol, w.deleteSymbol, w.download, w.downloadBatch, w.addresses, w.register, w.leave, w.nonsense,
	}
	for i := 0; ctx.Err() == nil; i++ {
		jobs[random.IntN(len(jobs))]()
		if number < 2 && i%20 == 19 { // the others need not wait for it
			w.revoke()
		}
	}
	w.compare()
}

// worker knows what it has been told is stored.
type worker struct {
	*soak
	random *rand.Rand
	key    string
	folder int64
	tag    string
	ids    []int64
	data   map[int64]string // by id; empty if it may be one or the other
}

func (w *worker) admin(kind, method, path, body string, expected ...int) outcome {
	return w.send("admin "+kind, method, "/admin/api-keys"+path, body, expected, "x-admin-key", soakAdminKey)
}

func (w *worker) use(kind, method, path, body string, expected ...int) outcome {
	return w.send(kind, method, path, body, expected, "x-api-key", w.key)
}

// issued is the answer to the creation or rotation of a key.
type issued struct {
	APIKey string `json:"apiKey"`
	Key    struct {
		ID int64 `json:"id"`
	} `json:"key"`
}

func (w *worker) issue(kind, path string, status int) (key issued, ok bool) {
	out := w.admin(kind, "POST", path, "", status)
	return key, out.status == status && json.Unmarshal(out.body, &key) == nil && key.APIKey != ""
}

// prepare gets a key and a folder.
func (w *worker) prepare(number int) bool {
	key, ok := w.issue("create", "", 201)
	if !ok {
		return false
	}
	w.key = key.APIKey
	out := w.use("create folder", "POST", "/symbol/folders", fmt.Sprintf(`{"name":"worker %d %d"}`, number, w.random.Uint64()), 201)
	var folder struct {
		ID int64 `json:"id"`
	}
	if out.status != 201 || json.Unmarshal(out.body, &folder) != nil {
		return false
	}
	w.folder = folder.ID
	return true
}

func (w *worker) symbols() string { return fmt.Sprint("/symbol/folders/", w.folder, "/symbols") }

func (w *worker) listFolders() { w.use("list folders", "GET", "/symbol/folders", "", 200) }

func (w *worker) listSymbols() {
	out := w.send("list symbols", "GET", w.symbols(), "", []int{200, 304}, "x-api-key", w.key, "If-None-Match", w.tag)
	if out.status == 200 && out.err == nil {
		w.tag = out.header.Get("ETag")
		w.check(out.body)
	}
}

// check compares a list with what is known.
func (w *worker) check(body []byte) {
	var list []struct {
		ID   int64  `json:"id"`
		Data string `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		w.t.Errorf("list: %v", err)
		return
	}
	found := make(map[int64]string)
	for _, symbol := range list {
		found[symbol.ID] = symbol.Data
	}
	for id, data := range w.data {
		if data != "" && found[id] != data {
			w.t.Errorf("symbol %d has %d bytes of data, and was acknowledged with %d", id, len(found[id]), len(data))
		}
	}
}

func (w *worker) pick() (int64, bool) {
	if len(w.ids) == 0 {
		return 0, false
	}
	return w.ids[w.random.IntN(len(w.ids))], true
}

func (w *worker) getSymbol() {
	if id, ok := w.pick(); ok {
		expected := []int{200}
		if w.data[id] == "" {
			expected = append(expected, 404) // its deletion may have succeeded
		}
		w.use("get symbol", "GET", fmt.Sprint("/symbol/symbols/", id), "", expected...)
	}
}

func (w *worker) someData() string {
	return strings.Repeat(string(rune('a'+w.random.IntN(26))), 1+w.random.IntN(6000))
}

func (w *worker) createSymbol() {
	if len(w.ids) > 60 {
		w.deleteSymbol()
		return
	}
	data := w.someData()
	out := w.use("create symbol", "POST", w.symbols(), `{"name":"n","type":"text/plain","data":"`+data+`"}`, 201)
	var symbol struct {
		ID int64 `json:"id"`
	}
	if out.status == 201 && out.err == nil && json.Unmarshal(out.body, &symbol) == nil {
		if _, known := w.data[symbol.ID]; known {
			w.t.Errorf("id %d was given twice", symbol.ID)
		}
		w.ids = append(w.ids, symbol.ID)
		w.data[symbol.ID] = data
	}
}

func (w *worker) changeSymbol() {
	id, ok := w.pick()
	if !ok || w.data[id] == "" {
		return
	}
	data := w.someData()
	out := w.use("update symbol", "PATCH", fmt.Sprint("/symbol/symbols/", id), `{"data":"`+data+`"}`, 200)
	switch {
	case out.status == 200 && out.err == nil:
		w.data[id] = data
	case out.unknown():
		w.data[id] = ""
	}
}

func (w *worker) deleteSymbol() {
	id, ok := w.pick()
	if !ok {
		return
	}
	out := w.use("delete symbol", "DELETE", fmt.Sprint("/symbol/symbols/", id), "", 200, 404)
	if out.unknown() {
		w.data[id] = ""
		return
	}
	for i := range w.ids {
		if w.ids[i] == id {
			w.ids = append(w.ids[:i], w.ids[i+1:]...)
			break
		}
	}
	delete(w.data, id)
}

func (w *worker) download() {
	source := sampleDrawings[w.random.IntN(len(sampleDrawings))]
	want, err := samples.ReadFile("samples/exports/" + source.file)
	if err != nil {
		w.t.Error(err)
		return
	}
	out := w.use("download", "POST", "/viewer/exports/download", `{"sourceFileUrl":"`+source.source+`"}`, 200)
	if out.status == 200 && out.err == nil && !bytes.Equal(out.body, want) {
		w.t.Errorf("%s: %d bytes, want %d", source.file, len(out.body), len(want))
	}
}

func (w *worker) batch() string {
	var items []string
	for _, drawing := range sampleDrawings {
		items = append(items, `{"sourceFileUrl":"`+drawing.source+`"}`)
	}
	return `{"items":[` + strings.Join(items, ",") + `]}`
}

func (w *worker) downloadBatch() {
	out := w.use("download batch", "POST", "/viewer/exports/download-batch", w.batch(), 200)
	if out.status != 200 || out.err != nil {
		return
	}
	archive, err := zip.NewReader(bytes.NewReader(out.body), int64(len(out.body)))
	if err != nil || len(archive.File) != len(sampleDrawings) {
		w.t.Errorf("zip: %v", err)
	}
}

func (w *worker) addresses() {
	w.use("download addresses", "POST", "/viewer/exports/download-batch?responseType=urls", w.batch(), 200)
}

func (w *worker) register() {
	body := fmt.Sprintf(`{"sourceFileUrl":"https://soak.example/%d","exportedUrl":"https://files.example/%d"}`, w.random.IntN(100), w.random.Uint64())
	w.use("register", "POST", "/viewer/exports/register", body, 200, 201)
}

// leave asks for something and does not wait for it.
func (w *worker) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(w.random.IntN(2000))*time.Microsecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", w.url+w.symbols(), nil)
	if err != nil {
		w.t.Error(err)
		return
	}
	request.Header.Set("x-api-key", w.key)
	if response, err := w.client.Do(request); err == nil {
		response.Body.Close()
	}
}

func (w *worker) nonsense() {
	w.use("bad body", "POST", "/symbol/folders", `{"name":`, 400)
	w.use("no route", "GET", "/nope", "", 404)
	w.send("wrong key", "GET", "/symbol/folders", "", []int{401, 429}, "x-api-key", "nonsense")
}

// revoke takes a key out of use in each way, and tries it afterwards.
func (w *worker) revoke() {
	key, ok := w.issue("create", "", 201)
	if !ok {
		return
	}
	try := func(raw, what string, want int) {
		out := w.send("key "+what, "GET", "/symbol/folders", "", []int{want}, "x-api-key", raw)
		if want != 200 && out.status == 200 {
			w.t.Errorf("a key was taken that was %s", what)
		}
	}
	id := fmt.Sprint("/", key.Key.ID)
	try(key.APIKey, "new", 200)
	if rotated, ok := w.issue("rotate", id+"/rotate", 200); ok {
		try(key.APIKey, "rotated", 401)
		try(rotated.APIKey, "new", 200)
		key = rotated
	}
	if w.admin("update", "PATCH", id, `{"isActive":false}`, 200).status == 200 {
		try(key.APIKey, "inactive", 403)
	}
	w.admin("list", "GET", "", "", 200)
	if w.admin("delete", "DELETE", id, "", 200, 404).status == 200 {
		try(key.APIKey, "deleted", 401)
	}
}

// compare asks for everything once more when all is quiet.
func (w *worker) compare() {
	for range 200 {
		out := w.use("compare", "GET", w.symbols(), "", 200)
		if out.status == 200 && out.err == nil {
			w.check(out.body)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	if w.folder != 0 {
		w.t.Error("the list could not be read at the end")
	}
}
