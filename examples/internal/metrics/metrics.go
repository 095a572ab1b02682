// Package metrics shows how an application exports metrics to Prometheus, beside those of
// the Prometheus client, whose names begin with go_ and process_.
package metrics

import (
	"context"
	"database/sql"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
)

// Metrics are the metrics of a server.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	aborted  *prometheus.CounterVec
}

// New returns the metrics of client keys, and of the openers that fetch files.
func New(clientKeys *keys.Service, openers ...exports.Opener) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("canvasback_requests_total", "Requests by method, route and status.", "method", "route", "status"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "canvasback_request_duration_seconds",
			Help:    "Time until the response was complete, by route.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 minutes
		}, []string{"route"}),
		bytes:   counter("canvasback_response_bytes_total", "Bytes of response bodies by route.", "route"),
		aborted: counter("canvasback_responses_aborted_total", "Responses that were not completed, by route.", "route"),
	}
	m.registry.MustRegister(m.requests, m.duration, m.bytes, m.aborted,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	key := func(name, help string, read func(keys.Stats) uint64) {
		m.add("canvasback_key_"+name, help, func() float64 { return float64(read(clientKeys.Stats())) })
	}
	key("cache_hits_total", "Key checks served from the cache.",
		func(s keys.Stats) uint64 { return s.Hits })
	key("cache_misses_total", "Key checks that read the store and were cached.",
		func(s keys.Stats) uint64 { return s.Misses })
	key("cache_bypasses_total", "Key checks that read the store because no lease was valid.",
		func(s keys.Stats) uint64 { return s.Uncached })
	key("rejections_total", "Key checks that failed, except for an unavailable store.",
		func(s keys.Stats) uint64 { return s.Rejected })
	key("unavailable_total", "Key checks that failed because the store was unavailable.",
		func(s keys.Stats) uint64 { return s.Unavailable })
	m.add("canvasback_key_lease_age_seconds", "Time since the last successful read of changes; +Inf without one.", func() float64 {
		if age := clientKeys.Stats().LeaseAge; age >= 0 {
			return age.Seconds()
		}
		return math.Inf(1)
	})

	fetched := func(name, help string, read func(fetch.Stats) uint64) {
		m.add("canvasback_fetch_"+name, help, func() (sum float64) {
			for _, opener := range openers { // fetch.Opener and s3.Opener
				if opener, ok := opener.(interface{ Stats() fetch.Stats }); ok {
					sum += float64(read(opener.Stats()))
				}
			}
			return sum
		})
	}
	fetched("attempts_total", "Requests to origin servers and object stores.",
		func(s fetch.Stats) uint64 { return s.Attempts })
	fetched("retries_total", "Attempts after a failed one.",
		func(s fetch.Stats) uint64 { return s.Retries })
	fetched("resumes_total", "Downloads that continued after an interruption.",
		func(s fetch.Stats) uint64 { return s.Resumes })
	return m
}

// add adds a metric. It is a counter if its name ends with _total, otherwise a gauge.
func (m *Metrics) add(name, help string, read func() float64) {
	var metric prometheus.Collector = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	if strings.HasSuffix(name, "_total") {
		metric = prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read)
	}
	m.registry.MustRegister(metric)
}

// AddAPI adds the current figures of an API.
func (m *Metrics) AddAPI(api *httpapi.API) {
	m.add("canvasback_change_streams", "Open streams of changes of the symbol library.",
		func() float64 { return float64(api.Stats().ChangeStreams) })
}

// AddPool adds the metrics of a connection pool.
func (m *Metrics) AddPool(stats func() sql.DBStats) {
	m.add("canvasback_pool_connections", "Connections to the database.",
		func() float64 { return float64(stats().OpenConnections) })
	m.add("canvasback_pool_connections_max", "The maximum of connections to the database.",
		func() float64 { return float64(stats().MaxOpenConnections) })
	m.add("canvasback_pool_connections_in_use", "Connections to the database in use.",
		func() float64 { return float64(stats().InUse) })
	m.add("canvasback_pool_waits_total", "Waits for a connection to the database.",
		func() float64 { return float64(stats().WaitCount) })
	m.add("canvasback_pool_wait_seconds_total", "Time spent waiting for a connection to the database.",
		func() float64 { return stats().WaitDuration.Seconds() })
}

// AddDisk adds the free space of a disk.
func (m *Metrics) AddDisk(free func() (int64, error)) {
	m.add("canvasback_disk_free_bytes", "Space on the disk of the database; -1 if unknown.", func() float64 {
		n, err := free()
		if err != nil {
			return -1
		}
		return float64(n)
	})
}

// AddFence adds the state of the fence of a PostgreSQL database.
func (m *Metrics) AddFence(state func() string) {
	for _, s := range []string{"off", "partial", "complete"} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "canvasback_fence",
			Help:        "Which standbys confirm commits: 1 for the state off (none), partial or complete (all).",
			ConstLabels: prometheus.Labels{"state": s},
		}, func() float64 {
			if state() == s {
				return 1
			}
			return 0
		}))
	}
}

// Observe is for [httpapi.Options].
func (m *Metrics) Observe(_ context.Context, o httpapi.Observation) {
	m.requests.WithLabelValues(o.Method, o.Route, strconv.Itoa(o.Status)).Inc()
	m.duration.WithLabelValues(o.Route).Observe(o.Duration.Seconds())
	m.bytes.WithLabelValues(o.Route).Add(float64(o.Bytes))
	if o.Aborted {
		m.aborted.WithLabelValues(o.Route).Inc()
	}
}

// Handler serves the metrics in the formats of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
