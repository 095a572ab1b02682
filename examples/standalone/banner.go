package main

import (
	_ "embed"
	"io"
	"net"
	"net/url"
	"strconv"
	"text/template"
)

//go:embed banner.txt
var bannerText string

var banner = template.Must(template.New("banner").Parse(bannerText))

// writeBanner prints URLs and commands to try the server with. It is the only
// place that shows the generated admin key and the sample key.
func writeBanner(w io.Writer, c config, baseURL string, listener net.Addr, d demo) error {
	source := func(i int) string { return sampleDrawings[i].source }
	return banner.Execute(w, map[string]any{
		"API":       baseURL + c.basePath,
		"Base":      baseURL,
		"Listener":  listener.String(),
		"Proxied":   c.publicURL != "" || c.tls.enabled(),
		"Storage":   redactPassword(c.databaseURL),
		"Open":      !c.protect,
		"AdminSet":  c.adminKeyGiven,
		"AdminKey":  c.adminKeys[0],
		"ClientKey": string(d.clientKey),
		"Seeded":    d.seeded,
		"Folder":    strconv.FormatInt(d.folderID, 10),
		"Single":    source(2),
		"Batch":     []string{source(0), source(1), source(2)},
	})
}

// redactPassword returns a database URL with its password replaced by "xxxxx".
func redactPassword(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "a database"
	}
	query := u.Query()
	if query.Has("password") {
		query.Set("password", "xxxxx")
		u.RawQuery = query.Encode()
	}
	return u.Redacted()
}
