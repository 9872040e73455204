// Command testreport reads the output of "go test -json" and prints a line per package, the output
// of failures, the slowest tests and packages, and at the end the tests that were left out. The
// input may contain several runs, each after a line "=== NAME".
//
//	-budget FILE   fail packages that use more processor time than the file allows; see cost.go
//	-missing FILE  a line for each service that is not available
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of "go test -json".
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

type test struct{ pkg, name string }

func main() {
	missing := flag.String("missing", "", "a `FILE` with a line for each service that could not be had")
	budget := flag.String("budget", "", "a `FILE` with the seconds of CPU that a package may use")
	flag.Parse()
	limits, err := readBudget(*budget)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	r := newReport()
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	over := limits.over(r.packages)
	r.slowest(os.Stdout, 20)
	shout(services(*missing), r.never())
	fmt.Print(strings.Join(slices.Concat(r.failed, over), ""))
	fmt.Printf("%d passed, %d failed, %d skipped\n", r.passed, len(r.failed)+len(over), len(r.never()))
	if len(r.failed)+len(over) > 0 {
		os.Exit(1)
	}
}

// report accumulates the results of all runs.
type report struct {
	run      string // name of the current run
	output   map[test][]string
	late     test            // test during which a timeout was reported; its output is printed at once
	skipped  map[test]string // reason by skipped test
	ran      map[test]bool   // tests that passed or failed in any run
	passed   int
	failed   []string // one paragraph per failure
	tests    []spent
	packages []spent
}

func newReport() *report {
	return &report{output: map[test][]string{}, skipped: map[test]string{}, ran: map[test]bool{}}
}

// read consumes the output of all runs. Lines that are not JSON are printed.
func (r *report) read(from io.Reader) error {
	in := bufio.NewScanner(from)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			fmt.Println(in.Text()) // build errors and the names of runs
			r.begin(in.Text())
			continue
		}
		r.take(e)
	}
	return in.Err()
}

// begin sets the name of the run that follows.
func (r *report) begin(text string) {
	if name, ok := strings.CutPrefix(text, "=== "); ok {
		r.run = name
	}
}

// take processes one event.
func (r *report) take(e event) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		if key == r.late || strings.HasPrefix(e.Output, "panic: test timed out") {
			r.late = key
			fmt.Print(e.Output)
			return
		}
		r.output[key] = append(r.output[key], e.Output)
		return
	case "build-output":
		fmt.Print(e.Output)
		return
	case "pass":
		r.passed += r.count(key)
		r.line(e, "ok  ")
	case "fail":
		r.fail(key)
		fmt.Print(strings.Join(r.output[key], ""))
		r.line(e, "FAIL")
	case "skip":
		if e.Test != "" {
			r.skipped[key] = reason(r.output[key])
		}
	default:
		return
	}
	r.spend(e, r.output[key])
	delete(r.output, key)
}

// fail records a failed test, or a package that failed outside of its tests: a build, a panic, a
// limit.
func (r *report) fail(key test) {
	if key.name != "" {
		r.count(key)
	} else if slices.ContainsFunc(r.failed, func(f string) bool { return strings.HasPrefix(f, "failed: "+key.pkg+" ") }) {
		return
	}
	r.failed = append(r.failed, verdict(key, r.output[key]))
}

// testOutput matches lines that the test itself wrote: "    file_test.go:12: ", a panic or a race.
var testOutput = regexp.MustCompile(`^\s*[a-z0-9_]+\.go:\d+: |^panic: |^WARNING: DATA RACE|^fatal error: `)

// verdict describes a failed test with the last lines that the test itself wrote. Log output of
// servers is printed elsewhere.
func verdict(key test, output []string) string {
	const most, width = 12, 600
	var words []string
	for _, line := range output {
		if testOutput.MatchString(line) {
			words = append(words, "    "+strings.TrimSpace(line[:min(len(line), width)])+"\n")
		}
	}
	words = words[max(0, len(words)-most):]
	return fmt.Sprintf("failed: %s %s\n%s", key.pkg, key.name, strings.Join(words, ""))
}

// count marks a test as run and returns 1; it returns 0 for a package.
func (r *report) count(key test) int {
	if key.name == "" {
		return 0
	}
	r.ran[key] = true
	return 1
}

// omission is a test that no run has executed, with the reason.
type omission struct {
	test
	why string
}

// never returns the tests that were skipped and never executed, by name.
func (r *report) never() []omission {
	var all []omission
	for key, why := range r.skipped {
		if !r.ran[key] {
			all = append(all, omission{key, why})
		}
	}
	slices.SortFunc(all, func(a, b omission) int { return strings.Compare(a.pkg+" "+a.name, b.pkg+" "+b.name) })
	return all
}

// services returns a line for each missing service in the file, or nil if there is no file.
func services(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, "no "+strings.TrimSpace(line))
	}
	return lines
}

// shout prints the omitted tests by reason, so that nobody mistakes them for passed tests.
func shout(services []string, skipped []omission) {
	if len(services)+len(skipped) == 0 {
		return
	}
	fmt.Printf("\n===== %d services could not be had, and this run left out %d tests =====\n", len(services), len(skipped))
	for _, line := range services {
		fmt.Println("  " + line)
	}
	byReason := map[string][]omission{}
	for _, o := range skipped {
		byReason[o.why] = append(byReason[o.why], o)
	}
	reasons := make([]string, 0, len(byReason))
	for why := range byReason {
		reasons = append(reasons, why)
	}
	slices.SortFunc(reasons, func(a, b string) int { return len(byReason[b]) - len(byReason[a]) })
	for _, why := range reasons {
		fmt.Printf("  %d: %s\n", len(byReason[why]), why)
		const most = 8
		for i, o := range byReason[why] {
			if i == most {
				fmt.Printf("      and %d more\n", len(byReason[why])-most)
				break
			}
			fmt.Printf("      %s %s\n", strings.TrimPrefix(o.pkg, "example.org/smartdrive/"), o.name)
		}
	}
	fmt.Println("  \"make services\" starts the services for the next run; \"make deep\" runs what is left to it.")
}

// line prints the result of a package.
func (r *report) line(e event, word string) {
	if e.Test == "" {
		cost := ""
		if cpu := cpuOf(r.output[test{e.Package, ""}]); cpu > 0 {
			cost = fmt.Sprintf("  %.1fs CPU", cpu)
		}
		fmt.Printf("%s  %s  %.1fs%s\n", word, e.Package, e.Elapsed, cost)
	}
}

// reason returns the message that the test passed to t.Skip.
func reason(lines []string) string {
	for _, line := range lines {
		text := strings.TrimSpace(line)
		if text != "" && !strings.HasPrefix(text, "===") && !strings.HasPrefix(text, "---") {
			if _, after, ok := strings.Cut(text, ": "); ok {
				return after
			}
			return text
		}
	}
	return "no reason given"
}
