package contract

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/httpapi/conform"
)

// sendConform runs the tests of package conform, which check the responses, and
// returns their exchanges.
func sendConform(t *testing.T) []exchange {
	server := apitest.New(t)
	recorder := &recorder{base: server.URL}
	t.Run("conform", func(t *testing.T) {
		conform.Run(t, conform.Options{
			BaseURL:   server.URL,
			AdminKey:  apitest.AdminKey,
			FileURL:   server.AddFile("plan.pdf", strings.Repeat("%PDF-1.7 ", 100)),
			Transport: recorder,
		})
	})
	return recorder.exchanges
}

// recorder is a transport that records exchanges.
type recorder struct {
	base string

	mu        sync.Mutex
	exchanges []exchange
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Body = io.NopCloser(bytes.NewReader(sent))
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil || response.Header.Get("Content-Type") == "text/event-stream" { // which does not end
		return response, err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(got))
	if response.Header.Get("Content-Encoding") == "gzip" {
		zipped, err := gzip.NewReader(bytes.NewReader(got))
		if err != nil {
			return nil, err
		}
		if got, err = io.ReadAll(zipped); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges = append(r.exchanges, exchange{
		Test: "conform", Method: request.Method, Target: strings.TrimPrefix(request.URL.String(), r.base), Header: request.Header, Body: sent,
		Status: response.StatusCode, GotHeader: response.Header, GotBody: got,
	})
	return response, nil
}
