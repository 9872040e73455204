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

	"smartdrive/internal/intake/invoice"
	"smartdrive/internal/intake/invoice/invoicetest"
	"smartdrive/internal/intake/invoice/rule"
)

// verdicts are what the validation artefacts of rule.Release say of the mutants of our own
// invoices: instance, mutant and the fatal rules that are broken, separated by tabs. A mutant that
// is not in it breaks none; "-" stands for one that the artefacts cannot judge, because a schema
// has to refuse it.
//
//go:embed testdata/verdicts.txt
var verdicts string

// mutated are the invoices that mutants are made of. What is below stays as it is: verdicts.txt was
// made of it.
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

// shortName is a mutant's name as verdicts.txt has it: first elements are not counted, and what
// all paths of CII begin with is left out.
func shortName(m invoicetest.Mutant) string {
	return strings.Replace(strings.ReplaceAll(m.Name, "[1]", ""), "/rsm:CrossIndustryInvoice/rsm:SupplyChainTradeTransaction/ram:", "/", 1)
}

// fatalRules are those that we find broken; a text that cannot be read breaks the rule of its kind.
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

// TestMutantsAreJudgedAsTheArtefactsJudgeThem holds rules and reader against verdicts that are not
// ours, through the table that says which rules are covered.
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

// agree reports whether two verdicts are equal, or differ as the table says that they may: in rules
// that are a warning here, or with one that is only ours.
func agree(theirs, ours []string) bool {
	switch {
	case (len(theirs) > 0) == (len(ours) > 0):
		return true
	case len(ours) == 0:
		return !slices.ContainsFunc(theirs, func(id string) bool { return rule.StatusOf(id).State == rule.Covered })
	}
	return slices.ContainsFunc(ours, rule.Stricter)
}

// TestWriteMutants writes the mutants for the artefacts, to make verdicts.txt again.
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
