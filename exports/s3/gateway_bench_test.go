package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"example.com/canvasback/exports/s3"
)

// BenchmarkGateway reads 100 objects of 1 MiB, one after the other, with net/http and
// with an Opener. The metrics are the ratios of the Opener's time to that of net/http,
// which reads presigned URLs, and public ones, for which the gateway does less.
func BenchmarkGateway(b *testing.B) {
	g := newGateway(b)
	g.do(b, http.MethodPut, "", "policy=", fmt.Appendf(nil, `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::%s/*"}]}`, g.bucket), nil)
	opener := g.opener(b, func(o *s3.Options) { o.PresignLifetime = time.Hour })
	var objects []*url.URL
	var presigned, public []string
	for i := range 100 {
		key := fmt.Sprintf("plan%d.pdf", i)
		g.put(b, key, make([]byte, 1<<20))
		objects = append(objects, g.objectURL(key))
		signed, err := opener.PublicURL(b.Context(), objects[i])
		if err != nil {
			b.Fatal(err)
		}
		presigned, public = append(presigned, signed), append(public, g.url+"/"+g.bucket+"/"+key)
	}
	getAll := func(urls []string) float64 {
		start := time.Now()
		for _, u := range urls {
			request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, u, nil)
			if err != nil {
				b.Fatal(err)
			}
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				b.Fatal(err)
			}
			discard(b, response.Body)
		}
		return time.Since(start).Seconds()
	}
	var toPresigned, toPublic []float64
	for b.Loop() {
		start := time.Now()
		for _, u := range objects {
			file, err := opener.Open(b.Context(), u)
			if err != nil {
				b.Fatal(err)
			}
			discard(b, file.Body)
		}
		duration := time.Since(start).Seconds()
		toPresigned = append(toPresigned, duration/getAll(presigned))
		toPublic = append(toPublic, duration/getAll(public))
	}
	for name, ratios := range map[string][]float64{"to-presigned": toPresigned, "to-public": toPublic} {
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], name) // median
	}
}

// discard reads 1 MiB with a buffer of the usual size.
func discard(b *testing.B, body io.ReadCloser) {
	b.Helper()
	defer body.Close()
	if n, err := io.Copy(struct{ io.Writer }{io.Discard}, body); err != nil || n != 1<<20 {
		b.Fatal(n, err)
	}
}
