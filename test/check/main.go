// Command check judges a data directory after its server has stopped, or was killed. It is
// independent: it reads the database with plain SQL, hashes files as a whole, reads the journals
// with a parser of its own, and shares no code with the server.
//
//	go run ./test/check [-strict] [-abandon 2s] [-blobs DIR] DATADIR [LOG...]
//
// LOGs are what clients have written down (package history): then it also checks that all that was
// acknowledged is there and that nothing is there that nobody has asked for. It changes nothing;
// the database is read from a copy.
//
// A killed server may leave files behind that its auditor may remove: stagings of uploads that have
// ended or never got a row, small files of an older generation. They are listed as leftovers and
// are findings only with -strict, which is for after a repair.
//
// Exit codes: 0 nothing found, 1 findings, 2 it could not be judged.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"smartdrive/test/history"
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

// check runs all checks. An error says that the directory cannot be judged.
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

// checker is one run.
type checker struct {
	options
	*report
	db   *database
	rows map[string]*uploadRow // by id
}

// report is what was found.
type report struct {
	findings  []finding
	leftovers int

	accounts, uploads, hashed int
	bytes                     int64
}

// finding is one thing that is not as it should be.
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

func (r *report) found(invariant, format string, args ...any) {
	r.findings = append(r.findings, finding{invariant: invariant, text: fmt.Sprintf(format, args...)})
}

func (r *report) left(invariant, format string, args ...any) {
	r.findings = append(r.findings, finding{invariant, fmt.Sprintf(format, args...), true})
	r.leftovers++
}

func (r *report) failed(strict bool) bool {
	return len(r.findings) > r.leftovers || strict && r.leftovers > 0
}
