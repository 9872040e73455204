// Command testreport reads "go test -json" and prints what people want to know: a line per package, the output of what failed,
// and one block at the end with the services that this machine could not have and the tests that it could not run. Several runs
// may follow each other, with a line of text before each.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
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
	flag.Parse()
	r := report{output: map[test][]string{}, skipped: map[test]string{}, ran: map[test]bool{}}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			fmt.Println(in.Text()) // build errors, and the lines between runs
			continue
		}
		r.take(e)
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	never := r.never()
	shout(services(*missing), never)
	fmt.Printf("%d passed, %d failed, %d skipped\n", r.passed, len(r.failed), len(never))
	fmt.Print(strings.Join(r.failed, ""))
}

type report struct {
	output  map[test][]string
	skipped map[test]string // and why
	ran     map[test]bool   // in one of the runs
	passed  int
	failed  []string // a paragraph for each test
}

func (r *report) take(e event) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		r.output[key] = append(r.output[key], e.Output)
		return
	case "build-output":
		fmt.Print(e.Output)
		return
	case "pass":
		r.passed += r.count(key)
		line(e, "ok  ")
	case "fail":
		if r.count(key) > 0 {
			r.failed = append(r.failed, verdict(key, r.output[key]))
		}
		fmt.Print(strings.Join(r.output[key], ""))
		line(e, "FAIL")
	case "skip":
		if e.Test != "" {
			r.skipped[key] = reason(r.output[key])
		}
	default:
		return
	}
	delete(r.output, key)
}

// said is how a line of the test itself begins: "    file_test.go:12: ", or of a panic or a race.
var said = regexp.MustCompile(`^\s*[a-z0-9_]+\.go:\d+: |^panic: |^WARNING: DATA RACE|^fatal error: `)

// verdict names a test that failed, with the last words of the test itself: what servers logged stands further up.
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

// never lists what was skipped in each run that came to it.
func (r *report) never() []string {
	var lines []string
	for key, why := range r.skipped {
		if !r.ran[key] {
			lines = append(lines, fmt.Sprintf("%s %s: %s", key.pkg, key.name, why))
		}
	}
	slices.Sort(lines)
	return lines
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

// shout prints what the machine could not do, so that nobody takes it for done.
func shout(services, skipped []string) {
	if len(services)+len(skipped) == 0 {
		return
	}
	fmt.Printf("\n===== %d services could not be had and %d tests could not run on this machine =====\n  %s\n",
		len(services), len(skipped), strings.Join(slices.Concat(services, skipped), "\n  "))
}

func line(e event, word string) {
	if e.Test == "" {
		fmt.Printf("%s  %s  %.1fs\n", word, e.Package, e.Elapsed)
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
