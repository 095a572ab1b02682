package conform

import (
	"bufio"
	"net/http"
	"strings"
)

type token struct{ Token, ExpiresAt string }

// testTokens uses a page token in the header and in a URL.
func testTokens(s *suite) {
	folder, _ := s.createFolder()
	symbol := s.createSymbol(folder, "image", `<svg xmlns="http://www.w3.org/2000/svg"/>`)
	raw := decode[token](s.send("POST", "/viewer/tokens", `{"scopes":["symbols:read"],"expiresInSeconds":60}`).want(http.StatusCreated)).Token
	signed, signature, _ := strings.Cut(raw, ".")
	if !strings.Contains(signed, "t_") || signature == "" {
		s.Fatalf("the token begins with %.10q, and its signature has %d digits", raw, len(signature))
	}
	s.send("GET", folder, "", "x-api-key", raw).want(http.StatusOK)
	s.send("GET", symbol+"/image?token="+raw, "", "x-api-key", "").want(http.StatusOK).wantHeader("Referrer-Policy", "no-referrer")
	s.send("GET", symbol+"/image?token="+s.key, "", "x-api-key", "").wantError(http.StatusUnauthorized, "unauthorized", "")
	s.send("PATCH", folder, `{"name":`+quote(randomName())+`}`, "x-api-key", raw).wantError(http.StatusForbidden, "forbidden", "")
	digit := "A"
	if signature[:1] == digit {
		digit = "B"
	}
	s.send("GET", folder, "", "x-api-key", signed+"."+digit+signature[1:]).wantError(http.StatusUnauthorized, "unauthorized", "")
	if own := decode[struct{ IsToken bool }](s.send("GET", "/viewer/key", "", "x-api-key", raw).want(http.StatusOK)); !own.IsToken {
		s.Error("/viewer/key does not tell that it is a token")
	}
}

// testChanges follows changes, and goes on where it was.
func testChanges(s *suite) {
	events, end := s.follow("")
	if first := events(); !strings.Contains(first, `data: {"folders":true,"folderIds":null}`) {
		s.Errorf("the first event is %q", first)
	}
	folder, _ := s.createFolder()
	for event := ""; !strings.Contains(event, `"folders":true`); {
		event = events()
	}
	s.createSymbol(folder, "symbol", "data")
	last := ""
	for !strings.Contains(last, `"folderIds":[`) || !strings.Contains(last, lastElement(folder)) {
		last = events()
	}
	end()
	_, id, _ := strings.Cut(last, "\nid: ")
	id, _, _ = strings.Cut(id, "\n")
	again, end := s.follow("?lastEventId=" + id)
	defer end()
	if first := again(); strings.Contains(first, "null") {
		s.Errorf("the stream after %s begins with %q", id, first)
	}
}

// follow opens a stream. The function events returns its next event or comment.
func (s *suite) follow(query string) (events func() string, end func()) {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.options.BaseURL+"/symbol/changes"+query, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("x-api-key", s.key)
	response, err := s.options.Client.Do(request) //nolint:bodyclose // end closes it
	if err != nil {
		s.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		s.Fatalf("GET /symbol/changes: status %d, %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(response.Body)
	return func() (event string) {
		s.Helper()
		for lines.Scan() && lines.Text() != "" {
			event += lines.Text() + "\n"
		}
		if event == "" {
			s.Fatalf("the stream has ended: %v", lines.Err())
		}
		return event
	}, func() { response.Body.Close() }
}
