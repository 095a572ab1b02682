package fetch_test

import (
	"fmt"
	"log"
	"net/url"

	"example.com/canvasback/exports/fetch"
)

func Example() {
	opener, err := fetch.New(&fetch.Options{
		AllowedHosts: []string{"exports.intranet.example:8443"},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, rawURL := range []string{
		"https://cdn.example.com/plan.pdf",
		"https://exports.intranet.example:8443/plan.pdf",
		"http://169.254.169.254/latest/meta-data/",
		"http://localhost/",
	} {
		u, err := url.Parse(rawURL)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(u.Host, opener.Check(u) == nil)
	}
	// Output:
	// cdn.example.com true
	// exports.intranet.example:8443 true
	// 169.254.169.254 false
	// localhost false
}
