package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Gauges registers figures with labels that somebody else keeps. f is called at each scrape, must
// be quick and safe for concurrent use, and calls set once for each combination of values, as many
// as there are labels; those it leaves out are absent.
func (m *Metrics) Gauges(name, help string, labels []string, f func(set func(v float64, values ...string))) {
	m.collect(name, help, labels, func(d *prometheus.Desc, out chan<- prometheus.Metric) {
		f(func(v float64, values ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, values...)
		})
	})
}

// Counters is Gauges for figures that only grow while the process lives.
func (m *Metrics) Counters(name, help string, labels []string, f func(set func(v float64, values ...string))) {
	m.collect(name, help, labels, func(d *prometheus.Desc, out chan<- prometheus.Metric) {
		f(func(v float64, values ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, values...)
		})
	})
}

// Counted is a distribution that somebody else counts: Counts has one more element than Bounds and
// is not cumulative.
type Counted struct {
	Bounds []float64 // upper bounds of the buckets, in the unit of the name
	Counts []uint64
	Sum    float64
}

// Histograms registers distributions with labels that somebody else counts; see Gauges.
func (m *Metrics) Histograms(name, help string, labels []string, f func(set func(c Counted, values ...string))) {
	m.collect(name, help, labels, func(d *prometheus.Desc, out chan<- prometheus.Metric) {
		f(func(c Counted, values ...string) {
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

func (m *Metrics) collect(name, help string, labels []string, f func(*prometheus.Desc, chan<- prometheus.Metric)) {
	m.registry.MustRegister(&collector{desc: prometheus.NewDesc("smartdrive_"+name, help, labels, nil), f: f})
}

// collector implements prometheus.Collector.
type collector struct {
	desc *prometheus.Desc
	f    func(*prometheus.Desc, chan<- prometheus.Metric)
	mu   sync.Mutex // scrapes at the same time take turns, so that f need not mind
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.f(c.desc, out)
}
