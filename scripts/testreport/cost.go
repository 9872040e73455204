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

// spent is what a test or a package took in one run.
type spent struct {
	run     string
	name    string  // of a test: package and test
	elapsed float64 // seconds; tests beside it are part of it
	cpu     float64 // seconds; of packages only, and only where testcost ran them
}

func (r *report) spend(e event, output []string) {
	s := spent{run: r.run, name: e.Package, elapsed: e.Elapsed, cpu: cpuOf(output)}
	switch {
	case e.Test == "":
		r.packages = append(r.packages, s)
	case !strings.Contains(e.Test, "/"): // a subtest is part of its test
		s.name += " " + e.Test
		r.tests = append(r.tests, s)
	}
}

// cpuOf reads the line of testcost.
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

// slowest prints where the time went: it is what to look at when a target becomes slow.
func (r *report) slowest(out io.Writer, most int) {
	table := func(what string, all []spent) {
		slices.SortFunc(all, func(a, b spent) int { return int(1000 * (b.elapsed - a.elapsed)) })
		fmt.Fprintf(out, "\nthe slowest %s:\n", what)
		for _, s := range all[:min(most, len(all))] {
			fmt.Fprintf(out, "  %7.1fs", s.elapsed)
			if s.cpu > 0 {
				fmt.Fprintf(out, " %7.1fs CPU", s.cpu)
			}
			fmt.Fprintf(out, "  %s%s\n", strings.TrimPrefix(s.name, "smartdrive/"), inRun(s.run))
		}
	}
	table("packages", slices.Clone(r.packages))
	table("tests", slices.Clone(r.tests))
}

func inRun(run string) string {
	if run == "" {
		return ""
	}
	return "  (" + run + ")"
}

// budget is how many seconds of CPU a package may use in one run.
type budget struct {
	rest     float64 // those that the file does not name
	packages map[string]float64
}

// readBudget reads lines "PACKAGE SECONDS [# reason]"; the package "*" stands for all others.
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
		b.packages["smartdrive/"+words[0]] = seconds
	}
	return b, in.Err()
}

// over names the packages that used more than their budget.
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
