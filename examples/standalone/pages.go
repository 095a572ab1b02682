package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/console"
)

// withPages serves the console and health checks next to the API, to which all other
// paths and methods belong: its errors are JSON. The readiness check shows the state of the
// failover fence unless there is none.
func withPages(api *httpapi.API, basePath string, fence func() string) (http.Handler, error) {
	web, err := console.New(&console.Options{API: "." + basePath + "/", Ready: "readyz"})
	if err != nil {
		return nil, err
	}
	var details []func() string
	if fence != nil {
		details = append(details, func() string { return "fence: " + fence() })
	}
	pages := map[string]http.Handler{"/": web, "/healthz": httpapi.Alive(), "/readyz": api.Ready(details...)}
	for _, file := range console.Files() {
		pages["/"+file] = web
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if ok && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			page.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	}), nil
}

// checkHealth returns an error unless the server of this environment is ready.
func (c *config) checkHealth() error {
	target, transport := localURL(c.addr)+"/readyz", &http.Transport{DisableKeepAlives: true}
	if c.tls.Enabled() { // the request does not leave the machine
		target = strings.Replace(target, "http:", "https:", 1)
		transport.TLSClientConfig = &tls.Config{ServerName: c.tls.Hosts[0], InsecureSkipVerify: true}
	}
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	response, err := client.Get(target)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", target, response.Status)
	}
	return nil
}
