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

// work runs a client with its own key and folder until ctx ends.
func (s *soak) work(ctx context.Context, number int) {
	random := rand.New(rand.NewPCG(uint64(number), 1))
	w := &worker{soak: s, random: random, data: make(map[int64]string)}
	for !w.prepare(number) {
		if ctx.Err() != nil {
			return // a busy machine, and nothing to compare
		}
		time.Sleep(50 * time.Millisecond)
	}
	jobs := []func(){
		w.listFolders, w.listSymbols, w.listSymbols, w.listSymbols, w.getSymbol, w.getSymbol, w.createSymbol, w.createSymbol,
		w.updateSymbol, w.deleteSymbol, w.download, w.downloadBatch, w.downloadFetched, w.downloadURLs, w.register, w.disconnect, w.sendInvalid,
		w.useFolder, w.getOpenAPI,
	}
	for i := 0; ctx.Err() == nil; i++ {
		jobs[random.IntN(len(jobs))]()
		if number < 2 && i%20 == 19 { // a revoking call waits for a lease
			w.revoke()
		}
	}
	w.compare()
}

// worker is a client that remembers what the server acknowledged.
type worker struct {
	*soak
	random *rand.Rand
	key    string
	folder int64
	tag    string
	ids    []int64
	data   map[int64]string // by id; "" if ambiguous
}

func (w *worker) sendAdmin(kind, method, path, body string, expected ...int) outcome {
	return w.send("admin "+kind, method, "/admin/api-keys"+path, body, expected, "x-admin-key", soakAdminKey)
}

func (w *worker) sendClient(kind, method, path, body string, expected ...int) outcome {
	return w.send(kind, method, path, body, expected, "x-api-key", w.key)
}

// issuedKey is the response to the creation or rotation of a key.
type issuedKey struct {
	APIKey string
	Key    struct{ ID int64 }
}

func (w *worker) issue(kind, path string, status int) (issuedKey, bool) {
	key, ok := decode[issuedKey](w.sendAdmin(kind, "POST", path, "", status), status)
	return key, ok && key.APIKey != ""
}

// prepare creates a key and a folder.
func (w *worker) prepare(number int) bool {
	key, ok := w.issue("create", "", 201)
	if !ok {
		return false
	}
	w.key = key.APIKey
	body := fmt.Sprintf(`{"name":"worker %d %d"}`, number, w.random.Uint64())
	folder, ok := decode[record](w.sendClient("create folder", "POST", "/symbol/folders", body, 201), 201)
	w.folder = folder.ID
	return ok
}

func (w *worker) symbolsPath() string { return fmt.Sprint("/symbol/folders/", w.folder, "/symbols") }

func (w *worker) listFolders() { w.sendClient("list folders", "GET", "/symbol/folders", "", 200) }

func (w *worker) listSymbols() {
	out := w.send("list symbols", "GET", w.symbolsPath(), "", []int{200, 304}, "x-api-key", w.key, "If-None-Match", w.tag)
	if out.has(200) {
		w.tag = out.header.Get("ETag")
		w.check(out.body)
	}
}

// check compares a list with the acknowledged symbols.
func (w *worker) check(body []byte) {
	var list []struct {
		ID   int64
		Data string
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
			w.t.Errorf("symbol %d: got %d bytes of data, acknowledged %d", id, len(found[id]), len(data))
		}
	}
}

func (w *worker) pickSymbol() (int64, bool) {
	if len(w.ids) == 0 {
		return 0, false
	}
	return w.ids[w.random.IntN(len(w.ids))], true
}

func (w *worker) getSymbol() {
	if id, ok := w.pickSymbol(); ok {
		expected := []int{200}
		if w.data[id] == "" {
			expected = append(expected, 404) // its deletion may have succeeded
		}
		w.sendClient("get symbol", "GET", fmt.Sprint("/symbol/symbols/", id), "", expected...)
	}
}

func (w *worker) randomData() string {
	return strings.Repeat(string(rune('a'+w.random.IntN(26))), 1+w.random.IntN(6000))
}

func (w *worker) createSymbol() {
	if len(w.ids) > 60 {
		w.deleteSymbol()
		return
	}
	data := w.randomData()
	out := w.sendClient("create symbol", "POST", w.symbolsPath(), `{"name":"n","type":"text/plain","data":"`+data+`"}`, 201)
	if symbol, ok := decode[record](out, 201); ok {
		if _, known := w.data[symbol.ID]; known {
			w.t.Errorf("symbol id %d was assigned twice", symbol.ID)
		}
		w.ids = append(w.ids, symbol.ID)
		w.data[symbol.ID] = data
	}
}

func (w *worker) updateSymbol() {
	id, ok := w.pickSymbol()
	if !ok || w.data[id] == "" {
		return
	}
	data := w.randomData()
	out := w.sendClient("update symbol", "PATCH", fmt.Sprint("/symbol/symbols/", id), `{"data":"`+data+`"}`, 200)
	switch {
	case out.has(200):
		w.data[id] = data
	case out.ambiguous():
		w.data[id] = ""
	}
}

func (w *worker) deleteSymbol() {
	id, ok := w.pickSymbol()
	if !ok {
		return
	}
	out := w.sendClient("delete symbol", "DELETE", fmt.Sprint("/symbol/symbols/", id), "", 200, 404)
	if out.ambiguous() {
		w.data[id] = ""
		return
	}
	w.ids = slices.DeleteFunc(w.ids, func(other int64) bool { return other == id })
	delete(w.data, id)
}

func (w *worker) download() {
	source := sampleDrawings[w.random.IntN(len(sampleDrawings))]
	want, err := samples.ReadFile("samples/exports/" + source.file)
	if err != nil {
		w.t.Error(err)
		return
	}
	out := w.sendClient("download", "POST", "/viewer/exports/download", single(source.Source), 200)
	if out.has(200) && !bytes.Equal(out.body, want) {
		w.t.Errorf("%s: %d bytes, want %d", source.file, len(out.body), len(want))
	}
}

// sampleBatch is the body of a request for all samples.
func sampleBatch() string {
	var sources []string
	for _, drawing := range sampleDrawings {
		sources = append(sources, drawing.Source)
	}
	return batch(sources...)
}

func (w *worker) downloadBatch() {
	out := w.sendClient("download batch", "POST", "/viewer/exports/download-batch", sampleBatch(), 200)
	if !out.has(200) {
		return
	}
	archive, err := zip.NewReader(bytes.NewReader(out.body), int64(len(out.body)))
	if err != nil || len(archive.File) != len(sampleDrawings) {
		w.t.Errorf("zip: %v", err)
	}
}

// downloadFetched downloads a file that the server fetches over HTTP.
func (w *worker) downloadFetched() {
	source := fmt.Sprint("https://soak.example/fetched/", w.random.IntN(3))
	body := registration(source, w.origin+"/plan.bin")
	if w.sendClient("register", "POST", "/viewer/exports/register", body, 200, 201).ambiguous() {
		return
	}
	out := w.sendClient("download fetched", "POST", "/viewer/exports/download", single(source), 200)
	if out.has(200) && !bytes.Equal(out.body, soakFile) {
		w.t.Errorf("fetched file: got %d bytes, want %d", len(out.body), len(soakFile))
	}
}

// useFolder creates, renames and deletes a folder with a copy of the worker's
// symbols.
func (w *worker) useFolder() {
	body := fmt.Sprintf(`{"name":"copy %d"}`, w.random.Uint64())
	folder, ok := decode[record](w.sendClient("create folder", "POST", "/symbol/folders", body, 201), 201)
	if !ok {
		return
	}
	path := fmt.Sprint("/symbol/folders/", folder.ID)
	name := fmt.Sprint("renamed ", w.random.Uint64())
	if w.sendClient("update folder", "PATCH", path, `{"name":"`+name+`"}`, 200).status == 200 {
		out := w.sendClient("get folder", "GET", path, "", 200)
		if got, ok := decode[struct{ Name string }](out, 200); out.has(200) && (!ok || got.Name != name) {
			w.t.Errorf("folder: got %s, acknowledged name %q", out.body, name)
		}
	}
	bundle := w.sendClient("export folder", "GET", fmt.Sprint("/symbol/folders/", w.folder, "/export"), "", 200)
	if bundle.has(200) && len(w.ids) > 0 { // an empty bundle is rejected
		out := w.send("import folder", "POST", path+"/import", string(bundle.body), []int{201}, "x-api-key", w.key, "Content-Type", "application/zip")
		if out.has(201) {
			w.compareCopy(path)
		}
	}
	if w.sendClient("delete folder", "DELETE", path, "", 200, 404).status == 200 {
		w.sendClient("no folder", "GET", path, "", 404)
	}
}

// compareCopy compares an imported folder with the worker's folder.
func (w *worker) compareCopy(path string) {
	var lists [2][]struct{ Data string }
	for i, path := range []string{w.symbolsPath(), path + "/symbols"} {
		out := w.sendClient("list symbols", "GET", path, "", 200)
		if !out.has(200) {
			return
		}
		if err := json.Unmarshal(out.body, &lists[i]); err != nil {
			w.t.Errorf("list: %v", err)
		}
	}
	if !slices.Equal(lists[0], lists[1]) && w.calm.Load() {
		w.t.Errorf("imported folder with %d symbols differs from the exported one with %d", len(lists[1]), len(lists[0]))
	}
}

func (w *worker) getOpenAPI() { w.sendClient("openapi", "GET", "/openapi.json", "", 200) }

func (w *worker) downloadURLs() {
	w.sendClient("download urls", "POST", "/viewer/exports/download-batch?responseType=urls", sampleBatch(), 200)
}

func (w *worker) register() {
	source := fmt.Sprint("https://soak.example/", w.random.IntN(100))
	body := registration(source, fmt.Sprint("https://files.example/", w.random.Uint64()))
	w.sendClient("register", "POST", "/viewer/exports/register", body, 200, 201)
}

// disconnect sends a request and disconnects before the response.
func (w *worker) disconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(w.random.IntN(2000))*time.Microsecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", w.url+w.symbolsPath(), nil)
	if err != nil {
		w.t.Error(err)
		return
	}
	request.Header.Set("x-api-key", w.key)
	if response, err := w.client.Do(request); err == nil {
		response.Body.Close()
	}
}

func (w *worker) sendInvalid() {
	w.sendClient("bad body", "POST", "/symbol/folders", `{"name":`, 400)
	w.sendClient("no route", "GET", "/nope", "", 404)
	w.send("wrong key", "GET", "/symbol/folders", "", []int{401, 429}, "x-api-key", "nonsense")
}

// revoke rotates, deactivates and deletes a key, and checks that the key is
// rejected after each response.
func (w *worker) revoke() {
	key, ok := w.issue("create", "", 201)
	if !ok {
		return
	}
	check := func(raw, state string, want int) {
		expected := []int{want}
		if want != 200 {
			expected = append(expected, 429) // sendInvalid exhausts the rate limit
		}
		out := w.send("key "+state, "GET", "/symbol/folders", "", expected, "x-api-key", raw)
		if want != 200 && out.status == 200 {
			w.t.Errorf("%s key was accepted", state)
		}
	}
	id := fmt.Sprint("/", key.Key.ID)
	check(key.APIKey, "new", 200)
	if rotated, ok := w.issue("rotate", id+"/rotate", 200); ok {
		check(key.APIKey, "rotated", 401)
		check(rotated.APIKey, "new", 200)
		key = rotated
	}
	if w.sendAdmin("update", "PATCH", id, `{"isActive":false}`, 200).status == 200 {
		check(key.APIKey, "inactive", 403)
	}
	w.sendAdmin("get", "GET", id, "", 200)
	w.sendAdmin("list", "GET", "", "", 200)
	if w.sendAdmin("delete", "DELETE", id, "", 200, 404).status == 200 {
		check(key.APIKey, "deleted", 401)
	}
}

// compare checks all symbols after the last fault.
func (w *worker) compare() {
	for range 200 {
		out := w.sendClient("compare", "GET", w.symbolsPath(), "", 200)
		if out.has(200) {
			w.check(out.body)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	if w.folder != 0 {
		w.t.Error("symbols could not be listed after the last fault")
	}
}
