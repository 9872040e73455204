package telemetry

import (
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is a registry of its own. Every name begins with "smartdrive_"; a name that is registered
// twice or is not a metric name panics, at start. Values must be bounded sets: a route, a status, a
// kind.
type Metrics struct{ registry *prometheus.Registry }

// NewMetrics returns a registry that holds the figures of the Go runtime, of the process, and of
// the build.
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

// Gauge registers a figure that goes up and down; f is called at each scrape and must be quick and
// safe for concurrent use.
func (m *Metrics) Gauge(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "smartdrive_" + name, Help: help}, f))
}

// CounterFunc registers a figure that somebody else counts and that only grows while the process
// lives.
func (m *Metrics) CounterFunc(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "smartdrive_" + name, Help: help}, f))
}

// Counter registers a count by labels and returns the function that adds to it. It wants as many
// values as there are labels. One without labels is shown from the start: what is absent at first
// has no increase when it comes.
func (m *Metrics) Counter(name, help string, labels ...string) func(n float64, values ...string) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "smartdrive_" + name, Help: help}, labels)
	m.registry.MustRegister(c)
	if len(labels) == 0 {
		c.WithLabelValues()
	}
	return func(n float64, values ...string) { c.WithLabelValues(values...).Add(n) }
}

// Histogram registers a distribution by labels, with the given upper bounds of its buckets in its
// own unit, and returns the function that observes. Durations are in seconds and their names end in
// "_seconds".
func (m *Metrics) Histogram(name, help string, buckets []float64, labels ...string) func(v float64, values ...string) {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "smartdrive_" + name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return func(v float64, values ...string) { h.WithLabelValues(values...).Observe(v) }
}

// Handler serves the figures in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Build says what is running.
type Build struct {
	Version  string // of the module; "(devel)" outside of a release
	Revision string // of the source, with "+dirty" when it was changed; empty when not known
	Go       string
}

// ReadBuild returns what the linker recorded about this program.
func ReadBuild() Build {
	b := Build{Version: "(devel)", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
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
