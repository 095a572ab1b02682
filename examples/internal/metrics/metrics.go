// Package metrics shows how an application exports metrics to Prometheus:
//
//	canvasback_requests_total                  requests by method, route and status
//	canvasback_request_duration_seconds        histogram by route, until the response was complete
//	canvasback_response_bytes_total            bytes of response bodies by route
//	canvasback_responses_aborted_total         responses that were not completed, by route
//	canvasback_key_cache_hits_total            key checks served from the cache
//	canvasback_key_cache_misses_total          key checks that read the store and were cached
//	canvasback_key_cache_bypasses_total        key checks that read the store without a valid lease
//	canvasback_key_rejections_total            key checks that failed
//	canvasback_key_unavailable_total           key checks without a store
//	canvasback_key_lease_age_seconds           grows after a minute without checks; +Inf without a lease
//	canvasback_fetch_attempts_total            requests to origin servers and object stores
//	canvasback_fetch_retries_total             attempts after a failed one
//	canvasback_fetch_resumes_total             downloads that continued after an interruption
//	canvasback_prefetch_ready_total            files of zips that were prefetched when the response reached them
//	canvasback_prefetch_waited_total           files of zips that the response had to wait for
//	canvasback_prefetch_bytes                  memory in use for prefetched files
//	canvasback_prefetch_bytes_max              its limit
//	canvasback_pool_connections                connections to the database
//	canvasback_pool_connections_max            their maximum
//	canvasback_pool_connections_in_use         of them in use
//	canvasback_pool_waits_total                waits for a connection
//	canvasback_pool_wait_seconds_total         time spent waiting
//	canvasback_disk_free_bytes                 space on the disk of the SQLite database; -1 if unknown
//	canvasback_change_streams                  open streams of /symbol/changes
//	canvasback_fence                           1 for the state of the PostgreSQL fence, "off", "partial" or "complete"; 0 for others
//	go_*, process_*                            those of the Prometheus client
package metrics

import (
	"context"
	"database/sql"
	"math"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
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
	*prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	aborted  *prometheus.CounterVec
}

// New returns the metrics of services, and of the openers that fetch files.
func New(clientKeys *keys.Service, exportService *exports.Service, openers ...exports.Opener) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "canvasback_requests_total",
			Help: "Requests by method, route and status.",
		}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "canvasback_request_duration_seconds",
			Help:    "Time until the response was complete, by route.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 minutes
		}, []string{"route"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "canvasback_response_bytes_total",
			Help: "Bytes of response bodies by route.",
		}, []string{"route"}),
		aborted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "canvasback_responses_aborted_total",
			Help: "Responses that were not completed, by route.",
		}, []string{"route"}),
	}
	m.MustRegister(m.requests, m.duration, m.bytes, m.aborted,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	m.counter("canvasback_key_cache_hits_total", "Key checks served from the cache.",
		func() uint64 { return clientKeys.Stats().Hits })
	m.counter("canvasback_key_cache_misses_total", "Key checks that read the store and were cached.",
		func() uint64 { return clientKeys.Stats().Misses })
	m.counter("canvasback_key_cache_bypasses_total", "Key checks that read the store because no lease was valid.",
		func() uint64 { return clientKeys.Stats().Uncached })
	m.counter("canvasback_key_rejections_total", "Key checks that failed, except for an unavailable store.", func() uint64 {
		s := clientKeys.Stats()
		return s.Malformed + s.Unknown + s.Inactive + s.Expired + s.Denied
	})
	m.counter("canvasback_key_unavailable_total", "Key checks that failed because the store was unavailable.",
		func() uint64 { return clientKeys.Stats().Unavailable })
	m.gauge("canvasback_key_lease_age_seconds", "Time since the last successful read of the changes of keys; +Inf without one.", func() float64 {
		if age := clientKeys.Stats().LeaseAge; age >= 0 {
			return age.Seconds()
		}
		return math.Inf(1)
	})

	m.counter("canvasback_fetch_attempts_total", "Requests to origin servers and object stores.",
		func() uint64 { return fetchStats(openers).Attempts })
	m.counter("canvasback_fetch_retries_total", "Attempts after a failed one.",
		func() uint64 { return fetchStats(openers).Retries })
	m.counter("canvasback_fetch_resumes_total", "Downloads that continued after an interruption.",
		func() uint64 { return fetchStats(openers).Resumes })

	m.counter("canvasback_prefetch_ready_total", "Files of zips that were prefetched when the response reached them.",
		func() uint64 { return exportService.Stats().PrefetchReady })
	m.counter("canvasback_prefetch_waited_total", "Files of zips that the response had to wait for.",
		func() uint64 { return exportService.Stats().PrefetchWaited })
	m.gauge("canvasback_prefetch_bytes", "Memory in use for prefetched files.",
		func() float64 { return float64(exportService.Stats().PrefetchBytes) })
	m.gauge("canvasback_prefetch_bytes_max", "The limit of the memory for prefetched files.",
		func() float64 { return float64(exportService.Stats().PrefetchMaxBytes) })
	return m
}

// fetchStats returns the sum for fetch.Opener and s3.Opener.
func fetchStats(openers []exports.Opener) (sum fetch.Stats) {
	for _, opener := range openers {
		if opener, ok := opener.(interface{ Stats() fetch.Stats }); ok {
			stats := opener.Stats()
			sum.Attempts += stats.Attempts
			sum.Retries += stats.Retries
			sum.Resumes += stats.Resumes
		}
	}
	return sum
}

// AddAPI adds the current figures of an API.
func (m *Metrics) AddAPI(api *httpapi.API) {
	m.gauge("canvasback_change_streams", "Open streams of changes of the symbol library.",
		func() float64 { return float64(api.Stats().ChangeStreams) })
}

// AddPool adds the metrics of a connection pool.
func (m *Metrics) AddPool(stats func() sql.DBStats) {
	m.gauge("canvasback_pool_connections", "Connections to the database.",
		func() float64 { return float64(stats().OpenConnections) })
	m.gauge("canvasback_pool_connections_max", "The maximum of connections to the database.",
		func() float64 { return float64(stats().MaxOpenConnections) })
	m.gauge("canvasback_pool_connections_in_use", "Connections to the database in use.",
		func() float64 { return float64(stats().InUse) })
	m.counter("canvasback_pool_waits_total", "Waits for a connection to the database.",
		func() uint64 { return uint64(stats().WaitCount) })
	m.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "canvasback_pool_wait_seconds_total",
		Help: "Time spent waiting for a connection to the database.",
	}, func() float64 { return stats().WaitDuration.Seconds() }))
}

// PoolStats returns the statistics of a pgx pool for AddPool.
func PoolStats(pool *pgxpool.Pool) func() sql.DBStats {
	return func() sql.DBStats {
		s := pool.Stat()
		return sql.DBStats{
			MaxOpenConnections: int(s.MaxConns()),
			OpenConnections:    int(s.TotalConns()),
			InUse:              int(s.AcquiredConns()),
			WaitCount:          s.EmptyAcquireCount(),
			WaitDuration:       s.EmptyAcquireWaitTime(),
		}
	}
}

// AddFence adds the state of the fence of a PostgreSQL database.
func (m *Metrics) AddFence(state func() string) {
	for _, s := range []string{"off", "partial", "complete"} {
		m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
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

// AddDisk adds the free space of a disk.
func (m *Metrics) AddDisk(free func() (int64, error)) {
	m.gauge("canvasback_disk_free_bytes", "Space on the disk of the database.", func() float64 {
		n, err := free()
		if err != nil {
			return -1
		}
		return float64(n)
	})
}

func (m *Metrics) counter(name, help string, value func() uint64) {
	m.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
		func() float64 { return float64(value()) }))
}

func (m *Metrics) gauge(name, help string, value func() float64) {
	m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
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
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{})
}
