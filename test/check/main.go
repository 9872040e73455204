// Command check verifies a data directory after its server has stopped or was killed. It shares no
// code with the server: it reads the database with plain SQL, hashes whole files, and has its own
// parser of journals.
//
//	go run ./test/check [-strict] [-abandon 2s] [-blobs DIR] DATADIR [LOG...]
//
// LOGs are the logs of clients (package history). With them it also checks that everything
// acknowledged exists, and nothing that nobody requested. It changes nothing; it reads a copy of
// the database.
//
// A killed server may leave files that its auditor may remove: stagings of uploads that have ended
// or have no row, small files of an older generation. They are listed as leftovers, and are
// findings only with -strict, which is meant for a directory after a repair.
//
// Exit codes: 0 no findings, 1 findings, 2 the check could not run.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"example.org/smartdrive/test/history"
)

func main() {
	os.Exit(run())
}

func run() int {
	var o options
	flag.BoolVar(&o.strict, "strict", false, "leftovers of a kill are findings")
	flag.DurationVar(&o.abandon, "abandon", 0, "the server's --upload-abandon, to judge whether an upload was given up too early; 0: not judged")
	flag.StringVar(&o.blobs, "blobs", "", "the server's --blobs; DATADIR when it is not given")
	flag.Parse()
	if flag.NArg() < 1 {
		fmt.Fprintln(os.Stderr, "usage: check [-strict] [-abandon 2s] [-blobs DIR] DATADIR [LOG...]")
		return 2
	}
	o.data = flag.Arg(0)
	o.blobs = cmp.Or(o.blobs, o.data)
	records, err := history.Read(flag.Args()[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		return 2
	}
	rep, err := check(o, records)
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		return 2
	}
	for _, leftovers := range []bool{false, true} {
		for _, f := range rep.findings {
			if f.leftover == leftovers {
				fmt.Println(f)
			}
		}
	}
	fmt.Printf("checked: %d accounts, %d uploads, %d blobs (%d bytes), %d records; findings: %d, leftovers: %d\n",
		rep.accounts, rep.uploads, rep.hashed, rep.bytes, len(records), len(rep.findings)-rep.leftovers, rep.leftovers)
	if rep.failed(o.strict) {
		return 1
	}
	return 0
}

type options struct {
	data, blobs string
	strict      bool
	abandon     time.Duration
}

// check runs all checks and returns the report. An error means that they could not run.
func check(o options, records []history.Record) (rep *report, err error) {
	db, err := openCopy(o.data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c := &checker{options: o, db: db, report: &report{}}
	for _, step := range []func() error{c.database, c.ledgers, c.tree, c.references, c.loadUploads, c.uploadRows, c.contents, c.stagings} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if len(records) > 0 {
		if err := c.history(records); err != nil {
			return nil, err
		}
	}
	return c.report, nil
}

// checker holds the state of one run.
type checker struct {
	options
	*report
	db   *database
	rows map[string]*uploadRow // all uploads by id
}

// report contains the findings and statistics of a run.
type report struct {
	findings  []finding
	leftovers int

	accounts, uploads, hashed int
	bytes                     int64
}

// finding is a violated invariant.
type finding struct {
	invariant string // a number of docs/invariants.md, or "log"
	text      string
	leftover  bool
}

func (f finding) String() string {
	if f.leftover {
		return "leftover " + f.invariant + ": " + f.text
	}
	return f.invariant + ": " + f.text
}

// found adds a finding.
func (r *report) found(invariant, format string, args ...any) {
	r.findings = append(r.findings, finding{invariant: invariant, text: fmt.Sprintf(format, args...)})
}

// left adds a leftover, which is only a finding with -strict.
func (r *report) left(invariant, format string, args ...any) {
	r.findings = append(r.findings, finding{invariant, fmt.Sprintf(format, args...), true})
	r.leftovers++
}

// failed reports whether there are findings.
func (r *report) failed(strict bool) bool {
	return len(r.findings) > r.leftovers || strict && r.leftovers > 0
}
