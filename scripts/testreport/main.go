// Command testreport reads "go test -json" and prints what people look for: a line per package, the
// output of what failed, the slowest tests and packages, and one block at the end with what this
// run left out. Several runs may follow each other, each with a line of text before it.
//
//	-budget FILE   a package that uses more processor time than it says there fails; see cost.go
//	-missing FILE  a line for each service that could not be had
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

type report struct {
	run      string // the line of text before the run that is being read
	output   map[test][]string
	late     test            // of a package that has passed its time: what all goroutines do is said for a test that has ended
	skipped  map[test]string // and why
	ran      map[test]bool   // in one of the runs
	passed   int
	failed   []string // a paragraph for each test
	tests    []spent
	packages []spent
}

func newReport() *report {
	return &report{output: map[test][]string{}, skipped: map[test]string{}, ran: map[test]bool{}}
}

func (r *report) read(from io.Reader) error {
	in := bufio.NewScanner(from)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			fmt.Println(in.Text()) // build errors, and the lines between runs
			r.begin(in.Text())
			continue
		}
		r.take(e)
	}
	return in.Err()
}

// begin notes which run follows.
func (r *report) begin(text string) {
	if name, ok := strings.CutPrefix(text, "=== "); ok {
		r.run = name
	}
}

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

// fail notes a test that failed; a package that failed before or beside its tests (a build, a
// panic, a limit) is one, too.
func (r *report) fail(key test) {
	if key.name != "" {
		r.count(key)
	} else if slices.ContainsFunc(r.failed, func(f string) bool { return strings.HasPrefix(f, "failed: "+key.pkg+" ") }) {
		return
	}
	r.failed = append(r.failed, verdict(key, r.output[key]))
}

// said is how a line of the test itself begins: "    file_test.go:12: ", or of a panic or a race.
var said = regexp.MustCompile(`^\s*[a-z0-9_]+\.go:\d+: |^panic: |^WARNING: DATA RACE|^fatal error: `)

// verdict names a test that failed, with the last words of the test itself: what servers logged
// stands further up.
func verdict(key test, output []string) string {
	const most, width = 12, 600
	var words []string
	for _, line := range output {
		if said.MatchString(line) {
			words = append(words, "    "+strings.TrimSpace(line[:min(len(line), width)])+"\n")
		}
	}
	words = words[max(0, len(words)-most):]
	return fmt.Sprintf("failed: %s %s\n%s", key.pkg, key.name, strings.Join(words, ""))
}

func (r *report) count(key test) int {
	if key.name == "" {
		return 0
	}
	r.ran[key] = true
	return 1
}

// omission is a test that no run has run, and why.
type omission struct {
	test
	why string
}

// never lists what was skipped in each run that came to it.
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

// services reads the lines about services that could not be had. No file, no such service.
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

// shout prints what this run left out, by reason, so that nobody takes it for done.
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
			fmt.Printf("      %s %s\n", strings.TrimPrefix(o.pkg, "smartdrive/"), o.name)
		}
	}
	fmt.Println("  \"make services\" starts the services for the next run; \"make deep\" runs what is left to it.")
}

func (r *report) line(e event, word string) {
	if e.Test == "" {
		cost := ""
		if cpu := cpuOf(r.output[test{e.Package, ""}]); cpu > 0 {
			cost = fmt.Sprintf("  %.1fs CPU", cpu)
		}
		fmt.Printf("%s  %s  %.1fs%s\n", word, e.Package, e.Elapsed, cost)
	}
}

// reason is what the test gave t.Skip.
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
