package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi/apitest"
)

// TestPrograms_MakeTokens runs both programs, and sends their tokens to a server.
func TestPrograms_MakeTokens(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Clock.Set(time.Now())
	for file, command := range map[string][]string{
		"main.go":       {"go", "run", "."},
		"pagetoken.mjs": {"node", "pagetoken.mjs"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			if _, err := exec.LookPath(command[0]); err != nil && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			program := exec.CommandContext(t.Context(), command[0], command[1:]...)
			program.Env = append(os.Environ(), "KEY_ID=1", "API_KEY="+string(server.RawKey))
			token, err := program.Output()
			is.NoErr(err)

			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/symbol/folders", http.NoBody)
			is.NoErr(err)
			request.Header.Set("x-api-key", strings.TrimSpace(string(token)))
			response, err := http.DefaultClient.Do(request)
			is.NoErr(err)
			is.NoErr(response.Body.Close())
			is.Equal(response.StatusCode, http.StatusOK)

			source, err := os.ReadFile(file)
			is.NoErr(err)
			is.True(bytes.Count(source, []byte("\n")) <= 30) // short enough to be copied
		})
	}
}
