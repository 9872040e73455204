//go:build linux

package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// sample is a series of measurements of one quantity.
type sample []float64

func (s *sample) add(v float64) { *s = append(*s, v) }

func (s sample) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

func (s sample) String() string {
	return fmt.Sprintf("%.4g (%.4g-%.4g)", s.median(), slices.Min(s), slices.Max(s))
}

// over divides the measurements pairwise.
func (s sample) over(t sample) sample {
	q := make(sample, len(s))
	for i := range s {
		q[i] = s[i] / t[i]
	}
	return q
}

// table prints rows below a header, with the load of the machine.
func table(b *testing.B, head string, rows ...[]any) {
	b.Helper()
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("\n%s; median (min-max); load average %s\n", head, strings.Join(strings.Fields(string(load))[:3], " "))
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for _, v := range row {
			fmt.Fprintf(out, "  %v\t", v)
		}
		fmt.Fprintln(out)
	}
	must(b, out.Flush())
}

// warm touches the machine's memory; see the package comment.
func warm(b *testing.B, dir string) {
	b.Helper()
	path := filepath.Join(dir, "warm")
	f, err := os.Create(path)
	must(b, err)
	buf := make([]byte, mib)
	for range 1434 {
		_, err := f.Write(buf)
		must(b, err)
	}
	must(b, f.Close())
	must(b, os.Remove(path))
}

// noise returns incompressible bytes.
func noise(n int) []byte {
	buf := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(buf)
	return buf
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// rounds returns how often to repeat a comparison: n times, or once with -short.
func rounds(n int) int {
	if testing.Short() {
		return 1
	}
	return n
}
