package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"
)

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
