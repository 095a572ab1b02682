package main

import (
	_ "embed"
	"io"
	"net/url"
	"strconv"
	"text/template"
)

//go:embed banner.txt
var bannerText string

var banner = template.Must(template.New("banner").Parse(bannerText))

// writeBanner shows what a person who has just started the server needs. It is
// the one place where the generated admin key and the sample key appear.
func writeBanner(w io.Writer, c config, own string, d demo) error {
	source := func(i int) string { return sampleDrawings[i].source }
	return banner.Execute(w, map[string]any{
		"API":       own + c.basePath,
		"Own":       own,
		"Storage":   withoutPassword(c.databaseURL),
		"Open":      !c.protect,
		"Given":     c.adminKeyGiven,
		"AdminKey":  c.adminKeys[0],
		"ClientKey": string(d.clientKey),
		"Seeded":    d.seeded,
		"Folder":    strconv.FormatInt(d.folderID, 10),
		"Single":    source(2),
		"Batch":     []string{source(0), source(1), source(2)},
	})
}

// withoutPassword hides the password of a database address.
func withoutPassword(databaseURL string) string {
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
