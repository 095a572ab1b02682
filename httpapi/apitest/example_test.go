package apitest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
)

// A client is tested against the API.
func Example() {
	t := newExampleT() // a test has a *testing.T
	defer t.cleanup()

	s := apitest.New(t)
	s.RegisterExport(t, "https://viewer.example/drawings/17", "plan.pdf", "%PDF-1.7")

	response, err := s.Client().Post(s.URL+"/viewer/exports/download", "application/json",
		strings.NewReader(`{"sourceFileUrl":"https://viewer.example/drawings/17"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(response.StatusCode, string(content))
	// Output: 200 %PDF-1.7
}

// An application that serves the API takes its options from the Server.
func Example_application() {
	t := newExampleT() // a test has a *testing.T
	defer t.cleanup()

	newApplication := func(options httpapi.Options) http.Handler {
		options.Prefix = "/api"
		mux := http.NewServeMux()
		mux.Handle("/api/", httpapi.Handler(&options))
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "home") })
		return mux
	}
	s := apitest.New(t)
	application := newApplication(s.Options)

	request := httptest.NewRequest("GET", "/api/symbol/folders", nil)
	request.Header.Set("x-api-key", string(s.RawKey))
	response := httptest.NewRecorder()
	application.ServeHTTP(response, request)
	fmt.Println(response.Code, response.Body)
	// Output: 200 []
}

// The clock decides whether a key has expired.
func ExampleClock() {
	t := newExampleT() // a test has a *testing.T
	defer t.cleanup()

	s := apitest.New(t)
	expiresAt := s.Clock.Now().Add(time.Hour)
	issued, err := s.Keys.Create(t.Context(), keys.Fields{ExpiresAt: &expiresAt})
	if err != nil {
		t.Fatal(err)
	}
	s.Clock.Add(2 * time.Hour)
	_, err = s.Keys.Verify(t.Context(), string(issued.Raw))
	fmt.Println(errors.Is(err, keys.ErrExpired))
	// Output: true
}
