package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Gauges registers a gauge with labels whose values f provides. f is called at each scrape, must be
// fast, and calls set once per combination of label values. Combinations without a call are absent.
// Calls of f do not overlap.
func (m *Metrics) Gauges(name, help string, labels []string, f func(set func(v float64, values ...string))) {
	m.collect(name, help, labels, func(d *prometheus.Desc, out chan<- prometheus.Metric) {
		f(func(v float64, values ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, values...)
		})
	})
}

// Counters registers a family of counters with labels: values that only grow while the process
// lives. f is called at each scrape, must be fast, and calls set once per combination of label
// values. Calls of f do not overlap.
func (m *Metrics) Counters(name, help string, labels []string, f func(set func(v float64, values ...string))) {
	m.collect(name, help, labels, func(d *prometheus.Desc, out chan<- prometheus.Metric) {
		f(func(v float64, values ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, values...)
		})
	})
}

// HistogramState is the state of a histogram. Counts has one more element than Bounds and is not
// cumulative.
type HistogramState struct {
	Bounds []float64 // upper bounds of the buckets, in the unit of the metric
	Counts []uint64
	Sum    float64
}

// Histograms registers a family of histograms with labels. f is called at each scrape, must be
// fast, and calls set once per combination of label values, with counts that are not cumulative.
// Calls of f do not overlap.
func (m *Metrics) Histograms(name, help string, labels []string, f func(set func(c HistogramState, values ...string))) {
	m.collect(name, help, labels, func(d *prometheus.Desc, out chan<- prometheus.Metric) {
		f(func(c HistogramState, values ...string) {
			buckets, total := make(map[float64]uint64, len(c.Bounds)), uint64(0)
			for i, bound := range c.Bounds {
				total += c.Counts[i]
				buckets[bound] = total
			}
			total += c.Counts[len(c.Bounds)]
			out <- prometheus.MustNewConstHistogram(d, total, c.Sum, buckets, values...)
		})
	})
}

// collect registers a collector.
func (m *Metrics) collect(name, help string, labels []string, f func(*prometheus.Desc, chan<- prometheus.Metric)) {
	m.registry.MustRegister(&collector{desc: prometheus.NewDesc("smartdrive_"+name, help, labels, nil), f: f})
}

// collector implements prometheus.Collector with a function.
type collector struct {
	desc *prometheus.Desc
	f    func(*prometheus.Desc, chan<- prometheus.Metric)
	mu   sync.Mutex // serializes concurrent scrapes, so that f need not be safe for concurrent use
}

// Describe sends the description of the metric.
func (c *collector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect sends the current values.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.f(c.desc, out)
}
