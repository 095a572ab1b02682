package main

import (
	_ "embed"
	"io"
	"strconv"
	"strings"
)

// In bannerText, {name} is a value, and a line that begins with [condition] is printed if
// that holds. For a text/template, the linker would keep the methods of all types: 5 MB.
//
//go:embed banner.txt
var bannerText string

// writeBanner prints URLs and commands to try the server with. It is the only
// place that shows the generated admin key and the sample key.
func (p *program) writeBanner(w io.Writer, d demo) error {
	conditions := map[string]bool{
		"open": !p.protect, "protected": p.protect, "proxied": p.api.PublicURL != "" || p.tls.Enabled(),
		"admin key given": p.adminKeyGiven, "admin key generated": !p.adminKeyGiven,
		"client key": d.clientKey != "", "no client key": d.clientKey == "",
		"samples": d.seeded, "empty": !d.seeded,
	}
	values := strings.NewReplacer("{api}", p.url+p.api.Prefix, "{base}", p.url,
		"{listener}", p.listener.Addr().String(), "{storage}", p.db.Name,
		"{admin key}", p.api.AdminKeys[0], "{client key}", string(d.clientKey),
		"{folder}", strconv.FormatInt(d.folderID, 10))
	var text strings.Builder
	for line := range strings.Lines(bannerText) {
		condition, rest, _ := strings.Cut(line, "]")
		switch {
		case line[0] != '[':
			text.WriteString(line)
		case conditions[condition[1:]]:
			text.WriteString(rest)
		}
	}
	_, err := values.WriteString(w, text.String())
	return err
}
