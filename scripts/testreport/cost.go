package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// spent is the time that one run of a test or package took.
type spent struct {
	run     string
	name    string  // package, or package and test
	elapsed float64 // seconds, including waits for parallel tests
	cpu     float64 // seconds; only of packages run by testcost, else 0
}

// spend records the time of a finished test or package. Subtests count within their test.
func (r *report) spend(e event, output []string) {
	s := spent{run: r.run, name: e.Package, elapsed: e.Elapsed, cpu: cpuOf(output)}
	switch {
	case e.Test == "":
		r.packages = append(r.packages, s)
	case !strings.Contains(e.Test, "/"): // no subtest
		s.name += " " + e.Test
		r.tests = append(r.tests, s)
	}
}

// cpuOf returns the processor time that testcost printed, 0 if it printed none.
func cpuOf(output []string) float64 {
	for _, line := range slices.Backward(output) {
		if text, ok := strings.CutPrefix(line, "cost: "); ok {
			number, _, _ := strings.Cut(text, " ")
			cpu, _ := strconv.ParseFloat(number, 64) // none: 0
			return cpu
		}
	}
	return 0
}

// slowest prints the most packages and tests with the longest times.
func (r *report) slowest(out io.Writer, most int) {
	table := func(what string, all []spent) {
		slices.SortFunc(all, func(a, b spent) int { return int(1000 * (b.elapsed - a.elapsed)) })
		fmt.Fprintf(out, "\nthe slowest %s:\n", what)
		for _, s := range all[:min(most, len(all))] {
			fmt.Fprintf(out, "  %7.1fs", s.elapsed)
			if s.cpu > 0 {
				fmt.Fprintf(out, " %7.1fs CPU", s.cpu)
			}
			fmt.Fprintf(out, "  %s%s\n", strings.TrimPrefix(s.name, "example.org/smartdrive/"), inRun(s.run))
		}
	}
	table("packages", slices.Clone(r.packages))
	table("tests", slices.Clone(r.tests))
}

// inRun names the run for a message, or returns "" for an unnamed run.
func inRun(run string) string {
	if run == "" {
		return ""
	}
	return "  (" + run + ")"
}

// budget limits the seconds of processor time that a package may use in one run.
type budget struct {
	rest     float64 // limit of packages without their own; 0: unlimited
	packages map[string]float64
}

// readBudget reads lines "PACKAGE SECONDS [# reason]"; the package "*" stands for all others. An
// empty path means no limits.
func readBudget(path string) (budget, error) {
	b := budget{packages: map[string]float64{}}
	if path == "" {
		return b, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return b, err
	}
	defer f.Close() //nolint:errcheck // it was read
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		text, _, _ := strings.Cut(in.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 {
			return b, fmt.Errorf("%s:%d: %q is not a package with its seconds", path, n, in.Text())
		}
		seconds, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			return b, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if words[0] == "*" {
			b.rest = seconds
			continue
		}
		b.packages["example.org/smartdrive/"+words[0]] = seconds
	}
	return b, in.Err()
}

// over returns a message for each package that exceeded its budget.
func (b budget) over(packages []spent) []string {
	var lines []string
	for _, p := range packages {
		limit, ok := b.packages[p.name]
		if !ok {
			limit = b.rest
		}
		if limit > 0 && p.cpu > limit {
			lines = append(lines, fmt.Sprintf("failed: %s used %.0f s of CPU%s; its budget is %.0f s. Make it cheaper, leave depth to "+
				"make deep, or raise the budget and say why.\n", p.name, p.cpu, inRun(p.run), limit))
		}
	}
	return lines
}
