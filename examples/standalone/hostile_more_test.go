//go:build unix

package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/testflag"
)

// Bounds of attacks that leave something in the database.
const (
	longNames   = 2000 // symbols of an import
	longImports = 4
	manyLinks   = 400
)

// namesZip returns a zip of symbols of one byte, whose manifest gives them long names.
func namesZip() []byte {
	var manifest, out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := range longNames {
		w, _ := z.Create(fmt.Sprintf("%d.txt", i)) // a Buffer returns no error
		w.Write([]byte("x"))
		if i > 0 {
			manifest.WriteString(",")
		}
		fmt.Fprintf(&manifest, `{"file":"%d.txt","name":"%d %s","type":"text/%s"}`, i, i, strings.Repeat("\U0001f986", 240), strings.Repeat("x", 240))
	}
	w, _ := z.Create("manifest.json")
	fmt.Fprintf(w, `{"symbols":[%s]}`, manifest.String())
	z.Close()
	return out.Bytes()
}

// exchange sends a request on a kept connection, and returns its status and body.
func (c *hostileClient) exchange(conn net.Conn, in *bufio.Reader, method, path, body string, header ...string) (status int, text []byte) {
	fmt.Fprintf(conn, "%s /api%s HTTP/1.1\r\nHost: hostile\r\nContent-Length: %d\r\n", method, path, len(body))
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(conn, "%s: %s\r\n", header[i], header[i+1])
	}
	fmt.Fprintf(conn, "\r\n%s", body)
	response, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return 0, nil
	}
	text, _ = io.ReadAll(response.Body)
	return response.StatusCode, text
}

// result is a status as a result of an attack.
func result(status int) string {
	if status == 0 {
		return "no response"
	}
	return strconv.Itoa(status)
}

// stallLink makes a link to a file among many sources that nobody has registered, asks for
// its header, and then does not read it.
func (c *hostileClient) stallLink(conn *net.TCPConn) (string, bool) {
	in := bufio.NewReaderSize(conn, 512)
	body := batch(append(slices.Repeat([]string{strings.Repeat("&", 8000)}, 505), drawingSource("large", 0))...)
	status, text := c.exchange(conn, in, "POST", "/viewer/exports/links", body, "X-Api-Key", c.key)
	var link struct{ URL string }
	if status != 201 || json.Unmarshal(text, &link) != nil {
		return result(status), false
	}
	path := "/viewer/exports/" + link.URL
	for range 20 {
		if status, _ = c.exchange(conn, in, "HEAD", path, ""); status != 200 {
			return result(status), false
		}
	}
	fmt.Fprintf(conn, "GET /api%s HTTP/1.1\r\nHost: hostile\r\n\r\n", path)
	return result(status), true
}

// makeLinks makes links as fast as it can, up to manyLinks of all connections.
func (c *hostileClient) makeLinks(conn *net.TCPConn) (string, bool) {
	in := bufio.NewReader(conn)
	body := single(drawingSource("small", 0))
	for c.links.Add(1) <= manyLinks {
		if status, _ := c.exchange(conn, in, "POST", "/viewer/exports/links", body, "X-Api-Key", c.key); status != 201 {
			return result(status), false
		}
	}
	return "enough", true
}

// searchLongNames imports symbols with long names, and searches a text that none has.
func (c *hostileClient) searchLongNames(conn *net.TCPConn) (string, bool) {
	in := bufio.NewReader(conn)
	if c.imports.Add(1) <= longImports {
		path := fmt.Sprint("/symbol/folders/", c.folder, "/import")
		status, _ := c.exchange(conn, in, "POST", path, string(namesZip()), "X-Api-Key", c.key)
		return result(status), false
	}
	status, _ := c.exchange(conn, in, "GET", "/symbol/search?q=zzz&limit=1000", "", "X-Api-Key", c.key)
	return result(status), false
}

// upload creates a large symbol at the same time as others, and deletes it.
func (c *hostileClient) upload(conn *net.TCPConn) (string, bool) {
	in := bufio.NewReader(conn)
	body := `{"name":"upload","type":"text/plain","data":"` + strings.Repeat("u", 48<<20) + `"}`
	status, text := c.exchange(conn, in, "POST", c.symbolsPath(), body, "X-Api-Key", c.key)
	var symbol record
	if status == 201 && json.Unmarshal(text, &symbol) == nil {
		c.exchange(conn, in, "DELETE", fmt.Sprint("/symbol/symbols/", symbol.ID), "", "X-Api-Key", c.key)
	}
	return result(status), false
}

// wrongKeys sends wrong client keys beside an administrator of the same client IP.
func (c *hostileClient) wrongKeys(conn *net.TCPConn) (string, bool) {
	in := bufio.NewReader(conn)
	for {
		status, _ := c.exchange(conn, in, "GET", "/symbol/folders", "", "X-Api-Key", fmt.Sprint("cbk_", rand.Uint64()))
		if status != 401 {
			return result(status), false
		}
	}
}

// noWaiting sends downloads on a kept connection, whatever Retry-After says.
func (c *hostileClient) noWaiting(conn *net.TCPConn) (string, bool) {
	in := bufio.NewReader(conn)
	body := single(drawingSource("small", 0))
	for {
		status, _ := c.exchange(conn, in, "POST", "/viewer/exports/download", body, "X-Api-Key", c.key)
		if status != 200 {
			c.results.add("f no waiting, kept", result(status), 0)
		}
		if status == 0 {
			return result(status), false
		}
	}
}

// processorTime returns the processor time that a process has used, in user mode and in
// the kernel: that of getrusage, with a resolution of 10 ms.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	text := must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t)
	_, rest, _ := strings.Cut(string(text), ") ") // after the name
	fields := strings.Fields(rest)
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		ticks += must(strconv.ParseInt(field, 10, 64))(t)
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// TestHostileClient_NoWaitingCostsLittle has a client that ignores Retry-After: it sends
// 1,000 requests a second on 50 kept connections, whether it has a response or not. Each
// connection has about one response a second. With -hostile, that is, while nothing else
// runs, they may take 5 % of a core, measured as the processor time of the program.
func TestHostileClient_NoWaitingCostsLittle(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	if runtime.GOOS != "linux" {
		t.Skip("the processor time of another process is that of Linux")
	}
	is := is.New(t)
	s := newSoak(t, "memory:")
	s.env = append(s.env, "LOG_LEVEL=info", "DEMO=false")
	s.calm.Store(true)
	s.start()
	defer s.kill()
	c := newHostileClient(s, s.origin)
	is.True(c.worker.prepare(honestClients))
	c.register("s", s.origin+"/file")

	var running sync.WaitGroup
	defer running.Wait()
	dial := func() *net.TCPConn {
		conn := must(net.Dial("tcp", c.addr))(t)
		t.Cleanup(func() { conn.Close() })
		conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		return conn.(*net.TCPConn)
	}
	const download = `{"sourceFileUrl":"s"}`
	for range 64 { // the limit of a client
		result, _ := c.stall("/viewer/exports/download", download)(dial())
		is.Equal(result, "200")
	}
	var sent, rejected atomic.Int64
	stop := make(chan struct{})
	const connections = 50
	for range connections {
		conn := dial()
		running.Go(func() {
			ticks := time.NewTicker(50 * time.Millisecond)
			defer ticks.Stop()
			defer conn.Close()
			for {
				select {
				case <-ticks.C:
					c.request(conn, "/viewer/exports/download", "application/json", len(download))
					io.WriteString(conn, download)
					sent.Add(1)
				case <-stop:
					return
				}
			}
		})
		running.Go(func() {
			for in := bufio.NewReader(conn); ; {
				response, err := http.ReadResponse(in, nil)
				if err != nil {
					return
				}
				io.Copy(io.Discard, response.Body)
				if response.StatusCode == 429 {
					rejected.Add(1)
				}
			}
		})
	}
	waitFor(t, func() bool { return sent.Load() > 2000 })
	least := 1.0
	for range 3 { // the program may also do other things
		start := time.Now()
		requests, responses, used := sent.Load(), rejected.Load(), processorTime(t, s.process.Process.Pid)
		waitFor(t, func() bool { return sent.Load()-requests > 4000 })
		used = processorTime(t, s.process.Process.Pid) - used
		requests, responses = sent.Load()-requests, rejected.Load()-responses
		share := used.Seconds() / float64(requests) * 1000
		t.Logf("%.1f %% of a core for each 1,000 requests a second; %d requests, %d responses, %v", 100*share, requests, responses, used)
		is.True(responses > 0)
		is.True(float64(responses) <= (connections+3)*(time.Since(start).Seconds()+2)) // 3 a second are not delayed
		least = min(least, share)
	}
	close(stop)
	is.True(*hostileFlag == 0 || least <= 0.05)
}
