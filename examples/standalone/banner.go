package main

import (
	_ "embed"
	"io"
	"text/template"
)

//go:embed banner.txt
var bannerText string

var banner = template.Must(template.New("banner").Parse(bannerText))

// writeBanner prints URLs and commands to try the server with. It is the only
// place that shows the generated admin key and the sample key.
func (p *program) writeBanner(w io.Writer, d demo) error {
	return banner.Execute(w, map[string]any{
		"API":       p.url + p.api.Prefix,
		"Base":      p.url,
		"Listener":  p.listener.Addr().String(),
		"Proxied":   p.api.PublicURL != "" || p.tls.Enabled(),
		"Storage":   p.db.Name,
		"Open":      !p.protect,
		"AdminSet":  p.adminKeyGiven,
		"AdminKey":  p.api.AdminKeys[0],
		"ClientKey": string(d.clientKey),
		"Seeded":    d.seeded,
		"Folder":    d.folderID,
		"Drawings":  sampleDrawings,
	})
}
