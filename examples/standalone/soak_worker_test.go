//go:build unix

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// work is a client with a key and a folder of its own.
func (s *soak) work(ctx context.Context, number int) {
	random := rand.New(rand.NewPCG(uint64(number), 1))
	w := &worker{soak: s, random: random, data: make(map[int64]string)}
	for ctx.Err() == nil && !w.prepare(number) {
		time.Sleep(50 * time.Millisecond)
	}
	jobs := []func(){
		w.listFolders, w.listSymbols, w.listSymbols, w.listSymbols, w.getSymbol, w.getSymbol, w.createSymbol, w.createSymbol,
		w.changeSymbol, w.deleteSymbol, w.download, w.downloadBatch, w.fetched, w.addresses, w.register, w.leave, w.nonsense,
		w.folderOnce, w.document,
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

// fetched downloads what the program has to fetch itself.
func (w *worker) fetched() {
	source := fmt.Sprint("https://soak.example/fetched/", w.random.IntN(3))
	body := fmt.Sprintf(`{"sourceFileUrl":%q,"exportedUrl":%q}`, source, w.origin+"/plan.bin")
	if w.use("register", "POST", "/viewer/exports/register", body, 200, 201).unknown() {
		return
	}
	out := w.use("download fetched", "POST", "/viewer/exports/download", `{"sourceFileUrl":"`+source+`"}`, 200)
	if out.status == 200 && out.err == nil && !bytes.Equal(out.body, soakFile) {
		w.t.Errorf("a fetched file has %d bytes, want %d", len(out.body), len(soakFile))
	}
}

// folderOnce takes a folder through its life, with a copy of the worker's
// symbols in it.
func (w *worker) folderOnce() {
	out := w.use("create folder", "POST", "/symbol/folders", fmt.Sprintf(`{"name":"once %d"}`, w.random.Uint64()), 201)
	var folder struct {
		ID   int64  `json:"id"`
		Name string `json:"name"`
	}
	if out.status != 201 || out.err != nil || json.Unmarshal(out.body, &folder) != nil {
		return
	}
	path := fmt.Sprint("/symbol/folders/", folder.ID)
	name := fmt.Sprint("renamed ", w.random.Uint64())
	if w.use("update folder", "PATCH", path, `{"name":"`+name+`"}`, 200).status == 200 {
		out := w.use("get folder", "GET", path, "", 200)
		if out.status == 200 && out.err == nil && (json.Unmarshal(out.body, &folder) != nil || folder.Name != name) {
			w.t.Errorf("folder is %s, and was acknowledged as %q", out.body, name)
		}
	}
	bundle := w.use("export folder", "GET", fmt.Sprint("/symbol/folders/", w.folder, "/export"), "", 200)
	if bundle.status == 200 && bundle.err == nil && len(w.ids) > 0 { // an empty one is refused
		out := w.send("import folder", "POST", path+"/import", string(bundle.body), []int{201}, "x-api-key", w.key, "Content-Type", "application/zip")
		if out.status == 201 && out.err == nil {
			w.compareCopy(path)
		}
	}
	if w.use("delete folder", "DELETE", path, "", 200, 404).status == 200 {
		w.use("no folder", "GET", path, "", 404)
	}
}

// compareCopy compares a folder with the worker's own, from which it was made.
func (w *worker) compareCopy(path string) {
	var lists [2][]struct{ Data string }
	for i, path := range []string{w.symbols(), path + "/symbols"} {
		out := w.use("list symbols", "GET", path, "", 200)
		if out.status != 200 || out.err != nil {
			return
		}
		if err := json.Unmarshal(out.body, &lists[i]); err != nil {
			w.t.Errorf("list: %v", err)
		}
	}
	if !slices.Equal(lists[0], lists[1]) && w.calm.Load() {
		w.t.Errorf("an import of %d symbols has made %d, or others", len(lists[0]), len(lists[1]))
	}
}

func (w *worker) document() { w.use("document", "GET", "/openapi.json", "", 200) }

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
		expected := []int{want}
		if want != 200 {
			expected = append(expected, 429) // after so much nonsense
		}
		out := w.send("key "+what, "GET", "/symbol/folders", "", expected, "x-api-key", raw)
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
	w.admin("get", "GET", id, "", 200)
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
