package syntax

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// verdicts holds the results of the validation artefacts of rule.Release for the mutants of our own
// invoices: instance, mutant and broken fatal rules, separated by tabs. A mutant that is not listed
// breaks no rule; "-" stands for one that the artefacts cannot validate, because a schema rejects
// it.
//
//go:embed testdata/verdicts.txt
var verdicts string

// mutated returns the invoices that mutants are derived from. They must not change, because
// verdicts.txt depends on them.
func mutated() map[string][]byte {
	all := map[string][]byte{}
	add := func(name string, d *invoice.Document) {
		all[name+".ubl"], all[name+".cii"] = invoicetest.UBL(d), invoicetest.CII(d)
	}
	add("full", invoicetest.Full(1))
	add("credit", invoicetest.New(7))
	add("rates", invoicetest.New(8))
	for category, rate := range map[string]int64{"E": 0, "AE": 0, "K": 0, "O": 0, "L": 7} {
		add(category, invoicetest.Of(3, category, rate))
	}
	return all
}

// shortName returns a mutant's name as in verdicts.txt: without the index of first elements, and
// without the common prefix of all CII paths.
func shortName(m invoicetest.Mutant) string {
	return strings.Replace(strings.ReplaceAll(m.Name, "[1]", ""), "/rsm:CrossIndustryInvoice/rsm:SupplyChainTradeTransaction/ram:", "/", 1)
}

// fatalRules returns the fatal rules that a document breaks here; for an unreadable document, its
// error.
func fatalRules(text []byte) (broken []string) {
	for d, err := range Decode(Sniff(text[:min(len(text), SniffBytes)]), bytes.NewReader(text), Limits{}) {
		if err != nil {
			return append(broken, err.Error())
		}
		for _, f := range rule.Validate(d) {
			if f.Severity == rule.Fatal {
				broken = append(broken, f.Rule)
			}
		}
	}
	return broken
}

// TestMutantsAreJudgedAsTheArtefactsJudgeThem compares decoder and rules with the results of the
// artefacts, except for rules whose status says that they differ.
func TestMutantsAreJudgedAsTheArtefactsJudgeThem(t *testing.T) {
	t.Parallel()
	known := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(verdicts)); lines.Scan(); {
		instance, rest, _ := strings.Cut(lines.Text(), "\t")
		name, rules, _ := strings.Cut(rest, "\t")
		known[instance+"\t"+name] = rules
	}
	judged, agreed, used := 0, 0, 0
	for instance, text := range mutated() {
		if broken := fatalRules(text); len(broken) > 0 {
			t.Errorf("%s itself: %q", instance, broken)
		}
		for _, m := range invoicetest.Mutants(text) {
			theirs, ok := known[instance+"\t"+shortName(m)]
			if ok {
				used++
			}
			if theirs == "-" {
				continue
			}
			judged++
			ours := fatalRules(m.Of(text))
			if agree(strings.Fields(theirs), ours) {
				agreed++
				continue
			}
			t.Logf("%s %s: the artefacts say %q, we say %q", instance, shortName(m), theirs, ours)
		}
	}
	if used != len(known) || judged < 5000 {
		t.Errorf("%d mutants, and %d of %d verdicts were used: verdicts.txt is of other mutants", judged, used, len(known))
	}
	t.Logf("%d of %d agree", agreed, judged)
	if agreed*100 < judged*99 {
		t.Errorf("%d of %d mutants are judged as the table says: less than 99 %%", agreed, judged)
	}
}

// agree reports whether both results reject the document or both accept it, or whether the
// difference is documented: rules that are not fully covered here, or stricter ones.
func agree(theirs, ours []string) bool {
	switch {
	case (len(theirs) > 0) == (len(ours) > 0):
		return true
	case len(ours) == 0:
		return !slices.ContainsFunc(theirs, func(id string) bool { return rule.StatusOf(id).State == rule.Covered })
	}
	return slices.ContainsFunc(ours, rule.Stricter)
}

// TestWriteMutants writes the mutants for the artefacts, to regenerate verdicts.txt.
func TestWriteMutants(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("SMARTDRIVE_TEST_MUTANTS")
	if dir == "" {
		t.Skip("SMARTDRIVE_TEST_MUTANTS does not name a directory to write mutants to")
	}
	for instance, text := range mutated() {
		for i, m := range append([]invoicetest.Mutant{{Name: "itself"}}, invoicetest.Mutants(text)...) {
			at := filepath.Join(dir, filepath.Ext(instance)[1:])
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("%s-%04d.xml", instance, i)), m.Of(text), 0o644); err != nil {
				t.Fatal(err)
			}
			fmt.Printf("%s-%04d.xml\t%s\t%s\n", instance, i, instance, shortName(m)) //nolint:forbidigo // the index of what is written
		}
	}
}
