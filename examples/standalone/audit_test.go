package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/crypto/bcrypt"
)

// TestAudit_LogShowsWhoDidWhat downloads a drawing and revokes a key, and finds both
// in the log.
func TestAudit_LogShowsWhoDidWhat(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startServer(t, map[string]string{"ADMIN_API_KEY": firstAdminKey + "," + secondAdminKey, "LOG_LEVEL": "info"})
	raw := s.issueKey(`{"name":"Viewer"}`, secondAdminKey)
	const drawing = "https://cad.example/drawings/pump?session=secret"
	header := []string{"x-api-key", raw, "X-Request-Id", "download-1"}
	s.register(drawing, "https://93.184.216.34/pump.pdf", header...)
	s.sendJSON(200, "POST", "/viewer/exports/download?responseType=urls", single(drawing), header...)
	s.sendJSON(200, "PATCH", "/admin/api-keys/2", `{"isActive":false}`, "x-admin-key", secondAdminKey)
	s.sendJSON(403, "POST", "/viewer/exports/download", single(drawing), header...)
	is.NoErr(s.stop())

	// Requests for drawing pump, by any client.
	lines := func(expressions ...string) (found []string) {
		for line := range strings.Lines(s.log.String()) {
			all := strings.Contains(line, "msg=request ")
			for _, expression := range expressions {
				all = all && regexp.MustCompile(expression).MatchString(line)
			}
			if all {
				found = append(found, line)
			}
		}
		return found
	}
	downloads := lines(`route=/viewer/exports/download `, `export \d+ https://cad\.example/drawings/pump`, `status=200`)
	is.Equal(len(downloads), 1)
	is.True(strings.Contains(downloads[0], `actor="key 2"`))
	is.True(strings.Contains(downloads[0], `clientIP=127.0.0.1`))
	is.True(strings.Contains(downloads[0], `requestId=download-1`))
	is.Equal(len(lines(`route=/viewer/exports/download `, `actor="key 2"`, `status=403`, `code=forbidden`)), 1)
	revocations := lines(`method=(PATCH|DELETE) `, `route=/admin/api-keys/\{id\}`, `[\["]key 2[\]"]`)
	is.Equal(len(revocations), 1)
	is.True(strings.Contains(revocations[0], `actor="admin 2"`))
	is.True(!strings.Contains(s.log.String(), "session=secret"))
	is.True(!strings.Contains(s.log.String(), raw[12:]))
}

func TestAudit_ClientIPHeader(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[string]string{"CLIENT_IP_HEADER": "x-client-ip"})
	for i, c := range []struct{ value, want string }{
		{"192.0.2.7", "192.0.2.7"},
		{"::ffff:192.0.2.8", "192.0.2.8"},
		{"2001:db8::1", "2001:db8::1"},
		{"192.0.2.9, 192.0.2.10", "192.0.2.10"}, // what the proxy has appended
		{"not an address", "127.0.0.1"},
		{"", "127.0.0.1"},
	} {
		id := fmt.Sprint("client-", i)
		s.send("GET", "/symbol/folders", "", "X-Client-IP", c.value, "X-Request-Id", id)
		waitForText(t, "clientIP="+c.want+" requestId="+id, s.log)
	}
}

func TestHashAdminKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	hash := func(input string) (hash, messages string, err error) {
		name := filepath.Join(t.TempDir(), "in")
		is.NoErr(os.WriteFile(name, []byte(input), 0o600))
		in := must(os.Open(name))(t)
		defer in.Close()
		var out, prompt strings.Builder
		err = hashAdminKey(in, &out, &prompt)
		return strings.TrimSpace(out.String()), prompt.String(), err
	}
	text, messages, err := hash("  the right admin key\nignored")
	is.NoErr(err)
	is.Equal(messages, "") // a file is no terminal
	is.NoErr(bcrypt.CompareHashAndPassword([]byte(text), []byte("the right admin key")))
	for _, empty := range []string{"", "\n"} {
		_, _, err := hash(empty)
		is.True(err != nil && err.Error() == "no admin key on standard input")
	}
	_, _, err = hash(strings.Repeat("x", 73))
	is.True(err != nil) // bcrypt would ignore a part
	_, messages, err = hash("fifteen letters")
	is.NoErr(err)
	is.True(strings.Contains(messages, "can be guessed"))

	s := startServer(t, map[string]string{"ADMIN_API_KEY": text + "," + firstAdminKey})
	is.True(!strings.Contains(s.banner, text))
	for key, want := range map[string]int{"the right admin key": 200, firstAdminKey: 200, "wrong": 401, text: 401} {
		is.Equal(s.status("/admin/api-keys", "x-admin-key", key), want)
	}
	is.True(!strings.Contains(s.log.String(), "the right admin key"))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, databaseURL string) {
		is := is.New(t)
		addr := freeAddr(t)
		s := startServer(t, map[string]string{"DATABASE_URL": databaseURL, "METRICS_ADDR": addr, "ADMIN_API_KEY": firstAdminKey})
		s.send("GET", "/admin/api-keys", "", "x-admin-key", firstAdminKey)
		s.send("GET", "/symbol/folders", "", "x-api-key", "wrong")
		var body string
		waitFor(t, func() bool { // for the first lease
			body = s.sendText(200, "GET", "http://"+addr+"/metrics", "")
			return !strings.Contains(body, "canvasback_key_lease_age_seconds +Inf")
		})
		want := []string{
			`canvasback_requests_total{method="GET",route="/admin/api-keys",status="200"} 1`,
			`canvasback_requests_total{method="GET",route="/symbol/folders",status="401"} 1`,
			`canvasback_request_duration_seconds_count{route="/admin/api-keys"} 1`,
			"canvasback_key_rejections_total 1",
			"canvasback_key_lease_age_seconds ",
			"canvasback_fetch_attempts_total 0",
			"go_goroutines ",
		}
		if databaseURL != "memory:" {
			want = append(want, "canvasback_pool_connections_max ")
		}
		if strings.HasPrefix(databaseURL, "sqlite:") {
			want = append(want, "canvasback_disk_free_bytes ")
		}
		for _, line := range want {
			t.Log(line)
			is.True(strings.Contains(body, line))
		}
		is.Equal(s.status("/metrics"), 404) // not at the public address
	})
}
