package telemetry

import (
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is a registry of metrics. Their names get the prefix "smartdrive_". Registering a name
// twice or an invalid name panics, at start. Label values must be bounded sets, such as a route, a
// status or a kind.
type Metrics struct{ registry *prometheus.Registry }

// NewMetrics returns a registry with the metrics of the Go runtime, the process and the build.
func NewMetrics() *Metrics {
	m := &Metrics{prometheus.NewRegistry()}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	b := ReadBuild()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "smartdrive_build_info", Help: "1, with what was built as labels.",
	}, []string{"version", "revision", "go"})
	info.WithLabelValues(b.Version, b.Revision, b.Go).Set(1)
	m.registry.MustRegister(info)
	return m
}

// Gauge registers a value that may rise and fall. f is called at each scrape and must be fast and
// safe for concurrent use.
func (m *Metrics) Gauge(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "smartdrive_" + name, Help: help}, f))
}

// CounterFunc registers a value that only grows while the process lives, read from f at each
// scrape.
func (m *Metrics) CounterFunc(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "smartdrive_" + name, Help: help}, f))
}

// Counter registers a counter and returns the function that adds n to it. The function needs one
// value per label. A counter without labels is exported as 0 from the start, because a counter that
// appears later shows no increase for its first count.
func (m *Metrics) Counter(name, help string, labels ...string) func(n float64, values ...string) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "smartdrive_" + name, Help: help}, labels)
	m.registry.MustRegister(c)
	if len(labels) == 0 {
		c.WithLabelValues()
	}
	return func(n float64, values ...string) { c.WithLabelValues(values...).Add(n) }
}

// Histogram registers a histogram with the given upper bucket bounds, and returns the function that
// records an observation. Durations are in seconds and their names end in "_seconds".
func (m *Metrics) Histogram(name, help string, buckets []float64, labels ...string) func(v float64, values ...string) {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "smartdrive_" + name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return func(v float64, values ...string) { h.WithLabelValues(values...).Observe(v) }
}

// Handler serves the metrics in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// version is the version of the program by Semantic Versioning; CHANGELOG.md has its section. The
// linker may replace it and set the commit, for builds without Git:
// -ldflags "-X PACKAGE.version=1.2.3 -X PACKAGE.commit=...".
var version, commit = "0.1.0", ""

// Build identifies the running program.
type Build struct {
	Version  string // of the release
	Revision string // source revision, with "+dirty" if modified; empty if unknown
	Go       string // Go version
}

// ReadBuild returns version, Go version and revision of the running program. The revision is empty
// if the linker recorded none; "+dirty" marks uncommitted changes.
func ReadBuild() Build {
	b := Build{Version: version, Revision: commit, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok || commit != "" {
		return b
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	b.Revision += dirty
	return b
}
