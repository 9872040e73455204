//go:build linux

package bench

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/servicetest"
)

const (
	clusterFile  = 256 * mib
	clusterSmall = 1000 // files
	clusterSize  = 4 << 10
)

// site is one column of a table: a server and the services that it uses (nil: embedded).
type site struct {
	name string
	*server
	on *backing

	rate, cpu sample
	services  map[servicetest.Service]*sample // CPU time by service
	took      []time.Duration                 // duration of each request, in all rounds
}

// bothColumns starts an embedded server and one instance of a full cluster, both with default
// settings.
func bothColumns(b *testing.B) []*site {
	b.Helper()
	on := startBacking(b, servicetest.MySQL, servicetest.Redis, servicetest.S3, servicetest.Kafka)
	return []*site{
		{name: "embedded", server: startReal(b, b.TempDir())},
		{name: "cluster, one instance", server: startReal(b, b.TempDir(), on.flags()...), on: on, services: map[servicetest.Service]*sample{
			servicetest.MySQL: {}, servicetest.Redis: {}, servicetest.S3: {}, servicetest.Kafka: {},
		}},
	}
}

// BenchmarkClusterUpload sends 256 MiB in parts of 8 MiB, four in parallel, to an embedded server
// and to an instance of the full cluster, including begin and complete.
func BenchmarkClusterUpload(b *testing.B) {
	columns := bothColumns(b)
	body, no := noise(partSize), 0
	for b.Loop() {
		compare(b, columns, func(s *site) (int64, func() []time.Duration) {
			no++
			return clusterFile, func() []time.Duration { return s.sendFile(b, body, no) }
		})
	}
	report(b, "256 MiB in parts of 8 MiB, random order, 4 connections", "MiB/s", "GiB", gib, mib, columns)
}

// BenchmarkClusterSmall sends 1,000 files of 4 KiB with distinct content over 16 keep-alive
// connections, one request each.
func BenchmarkClusterSmall(b *testing.B) {
	columns := bothColumns(b)
	body, no := noise(clusterSize), 0
	for b.Loop() {
		compare(b, columns, func(s *site) (int64, func() []time.Duration) {
			no++
			return clusterSmall, func() []time.Duration { return s.sendFiles(b, body, no) }
		})
	}
	report(b, "1,000 files of 4 KiB, 16 connections", "files/s", "1,000 files", clusterSmall, 1, columns)
}

// BenchmarkClusterIdle measures the cost of both columns without any requests.
func BenchmarkClusterIdle(b *testing.B) {
	const settle, look = 5 * time.Second, 10 * time.Second
	columns := bothColumns(b)
	for b.Loop() {
		<-time.After(settle)
		for range rounds(3) {
			start := map[*site]totalCPU{}
			for _, s := range columns {
				start[s] = totalCPU{s.server.cpu(b), s.on.cpu(b)}
			}
			<-time.After(look)
			for _, s := range columns {
				s.cpu.add(ms(s.server.cpu(b)-start[s].own) / look.Seconds())
				for name, used := range s.on.cpu(b) {
					s.services[name].add(ms(used-start[s].services[name]) / look.Seconds())
				}
			}
		}
	}
	rows := [][]any{{"", "CPU ms a second"}}
	for _, s := range columns {
		rows = append(rows, []any{s.name, s.cpu})
		for _, name := range slices.Sorted(maps.Keys(s.services)) {
			rows = append(rows, []any{"and " + string(name), s.services[name]})
		}
	}
	table(b, "an installation that nobody uses", rows...)
	b.ReportMetric(columns[1].cpu.median(), "cpu-ms/s")
	b.ReportMetric(0, "ns/op")
}

// totalCPU is the CPU time that a server and its services have used so far.
type totalCPU struct {
	own      time.Duration
	services map[servicetest.Service]time.Duration
}

// compare runs both columns alternately; the first round is a warm-up.
func compare(b *testing.B, columns []*site, load func(s *site) (units int64, run func() []time.Duration)) {
	b.Helper()
	for round := range rounds(5) + 1 {
		for i := range columns {
			s := columns[(i+round)%len(columns)]
			units, run := load(s)
			before, start := totalCPU{s.server.cpu(b), s.on.cpu(b)}, time.Now()
			took := run()
			if round == 0 {
				continue
			}
			s.rate.add(float64(units) / time.Since(start).Seconds())
			s.cpu.add((s.server.cpu(b) - before.own).Seconds() / float64(units))
			for name, used := range s.on.cpu(b) {
				s.services[name].add((used - before.services[name]).Seconds() / float64(units))
			}
			s.took = append(s.took, took...)
		}
	}
}

// report prints the columns and the ratio of the second to the first. perAmount scales CPU times to
// the named amount, and perUnit scales rates to the named unit; both convert from the sum of bytes
// or files.
func report(b *testing.B, head, rate, amount string, perAmount, perUnit float64, columns []*site) {
	b.Helper()
	rows := [][]any{{"", rate, "CPU s/" + amount, "p50 ms of a request", "p99 ms"}}
	for _, s := range columns {
		slices.Sort(s.took)
		rows = append(rows, []any{s.name, s.rate.by(1 / perUnit), s.cpu.by(perAmount), digits(ms(s.quantile(50))), digits(ms(s.quantile(99)))})
	}
	own, other := columns[0], columns[1]
	ratio := other.rate.over(own.rate)
	slower := func(percent int) string {
		return digits(float64(other.quantile(percent)) / float64(own.quantile(percent)))
	}
	rows = append(rows, []any{"cluster ÷ embedded", ratio, other.cpu.over(own.cpu), slower(50), slower(99)})
	for _, name := range slices.Sorted(maps.Keys(other.services)) {
		rows = append(rows, []any{"and " + string(name), "", other.services[name].by(perAmount)})
	}
	table(b, head, rows...)
	b.ReportMetric(ratio.median(), "rate-ratio")
	b.ReportMetric(other.cpu.over(own.cpu).median(), "cpu-ratio")
	b.ReportMetric(0, "ns/op")
}

func (s *site) quantile(percent int) time.Duration { return s.took[(len(s.took)-1)*percent/100] }

func digits(v float64) string { return fmt.Sprintf("%.3g", v) }

// by multiplies all measurements by f.
func (s sample) by(f float64) sample {
	q := make(sample, len(s))
	for i := range s {
		q[i] = s[i] * f
	}
	return q
}

// sendFile uploads a file with distinct content and returns the duration of each part.
func (s *site) sendFile(b *testing.B, body []byte, no int) []time.Duration {
	b.Helper()
	var up struct {
		ID   string
		Node struct{ ID string }
	}
	s.call(b, "POST", "/uploads", map[string]any{"path": fmt.Sprintf("/file%d", no), "size": clusterFile, "part_size": partSize}, &up)
	parts := rand.Perm(clusterFile / partSize)
	took := s.each(b, conns, len(parts), body, func(i int, body []byte) string {
		binary.LittleEndian.PutUint64(body, uint64(no)<<32|uint64(i))
		return fmt.Sprintf("/api/v1/uploads/%s/parts/%d", up.ID, parts[i])
	})
	s.call(b, "POST", "/uploads/"+up.ID+"/complete", map[string]any{}, &up)
	return took
}

func (s *site) sendFiles(b *testing.B, body []byte, no int) []time.Duration {
	b.Helper()
	return s.each(b, smallConns, clusterSmall, body, func(i int, body []byte) string {
		binary.LittleEndian.PutUint64(body, uint64(no)<<32|uint64(i))
		return fmt.Sprintf("/api/v1/files/%d/%d?parents=true", no, i)
	})
}

// each sends n requests over conns connections and returns their durations. prepare makes the body
// of each request distinct.
func (s *site) each(b *testing.B, conns, n int, content []byte, prepare func(i int, body []byte) (path string)) []time.Duration {
	b.Helper()
	took, queue := make([]time.Duration, n), make(chan int, n)
	for i := range n {
		queue <- i
	}
	close(queue)
	var all sync.WaitGroup
	for range conns {
		all.Go(func() {
			w, body := dial(b, s.server), slices.Clone(content)
			defer w.conn.Close()
			for i := range queue {
				path, start := prepare(i, body), time.Now()
				if err := w.put(path, body, 1); err != nil {
					b.Errorf("request %d: %v", i, err)
					return
				}
				took[i] = time.Since(start)
			}
		})
	}
	all.Wait()
	return took
}
