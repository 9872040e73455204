// Command compare measures the comparisons that the articles behind SmartDrive make
// (docs/sources.md, C1-C7): data structures for delayed tasks, places to store tasks, architectures
// around them, the database cost of an upload, and ways to create a row once. Each comparison
// prints one table.
//
//	go run ./test/compare                  all of them
//	go run ./test/compare structures --fast
//	go run ./test/compare --record docs    writes the tables into docs/comparisons.md and .zh-CN.md
//
// It is a separate program to keep the compared libraries out of smartdrive's binary. It uses the
// services of "make services". It names missing services in capitals and exits with 1, unless
// --allow-missing is given.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	if what := os.Getenv(childVariable); what != "" {
		os.Exit(beChild(ctx, what))
	}
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the parsed command line.
type options struct {
	names                   []string
	fast, json, missingIsOK bool
	lang                    language
	record                  string // directory of the pages; empty: do not write them
}

// command executes a command line and returns the exit code: 0, 1 if a comparison failed or was
// skipped, 2 for an invalid command line.
func command(ctx context.Context, args []string, out, log io.Writer) int {
	o, err := parse(args, log)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(log, "compare:", err)
		return 2
	}
	if err := runAll(ctx, o, out, log); err != nil {
		fmt.Fprintln(log, "compare:", err)
		return 1
	}
	return 0
}

func parse(args []string, log io.Writer) (options, error) {
	var o options
	lang := ""
	flags := pflag.NewFlagSet("compare", pflag.ContinueOnError)
	flags.SetOutput(log)
	flags.BoolVar(&o.fast, "fast", false, "use small sizes; the figures then show only that it works")
	flags.BoolVar(&o.json, "json", false, "print one JSON object for each table")
	flags.StringVar(&lang, "lang", cmpOr(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG")), "en or zh; default is the locale's")
	flags.BoolVar(&o.missingIsOK, "allow-missing", false, "exit with 0 although a service is missing")
	flags.StringVar(&o.record, "record", "", "also write the tables into comparisons.md and comparisons.zh-CN.md of this directory")
	flags.Usage = func() {
		fmt.Fprintf(log, "Usage: compare [NAME...] [flags]\n\nNames:\n")
		for _, c := range comparisons {
			fmt.Fprintf(log, "  %-14s %s  %s\n", c.name, c.id, c.title.en)
		}
		fmt.Fprintf(log, "\nFlags:\n%s", flags.FlagUsages())
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if strings.HasPrefix(lang, "zh") {
		o.lang = chinese
	}
	o.names = flags.Args()
	for _, name := range o.names {
		if !slices.ContainsFunc(comparisons, func(c comparison) bool { return c.name == name }) {
			return o, fmt.Errorf("there is no comparison %q; --help lists them", name)
		}
	}
	if o.record != "" && o.fast {
		return o, errors.New("figures of --fast are not recorded")
	}
	return o, nil
}

// cmpOr returns the first non-empty value.
func cmpOr(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

var errSkipped = errors.New("a service is missing; \"make services\" starts them, --allow-missing accepts it")

// runAll runs the selected comparisons one after the other. A failure does not stop the others.
func runAll(ctx context.Context, o options, out, log io.Writer) error {
	var failed error
	for _, c := range comparisons {
		if len(o.names) > 0 && !slices.Contains(o.names, c.name) {
			continue
		}
		failed = errors.Join(failed, runOne(ctx, c, o, out, log))
	}
	return failed
}

// runOne runs one comparison and prints or records its table. It fails with errSkipped if a service
// is missing, unless that is allowed.
func runOne(ctx context.Context, c comparison, o options, out, log io.Writer) error {
	bench := newBench(o.fast, log)
	if missing := bench.missing(c.needs); len(missing) > 0 {
		fmt.Fprintf(log, "\n!! %s IS SKIPPED: MISSING: %s\n", strings.ToUpper(c.name), strings.ToUpper(strings.Join(missing, ", ")))
		if o.missingIsOK {
			return nil
		}
		return fmt.Errorf("%s: %w", c.name, errSkipped)
	}
	t, err := bench.run(ctx, c)
	if errors.Is(err, errSkipped) {
		fmt.Fprintf(log, "\n!! %s IS SKIPPED: %v\n", strings.ToUpper(c.name), err)
		if o.missingIsOK {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if o.json {
		err = t.writeJSON(out, o.lang)
	} else {
		err = t.writeText(out, o.lang)
	}
	if err == nil && o.record != "" {
		err = record(o.record, t)
	}
	if err == nil && len(t.lacking) > 0 && !o.missingIsOK {
		err = fmt.Errorf("%s: %s; --allow-missing accepts it", c.name, t.lacking[0].en)
	}
	return err
}
