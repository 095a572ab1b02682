package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"
)

// checkHealth returns an error unless the server of this environment is ready.
func checkHealth(ctx context.Context, lookup func(string) (string, bool)) error {
	c, err := readConfig(lookup)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, localURL(c.addr)+"/readyz", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	if c.tls.Enabled() { // the request does not leave the machine
		request.URL.Scheme = "https"
		transport.TLSClientConfig = &tls.Config{ServerName: c.tls.Hosts[0], InsecureSkipVerify: true}
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", request.URL, response.Status)
	}
	return nil
}
