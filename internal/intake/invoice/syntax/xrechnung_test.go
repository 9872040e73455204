package syntax

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/intake/invoice"
)

// instances returns the files of KoSIT's XRechnung test suite (Apache-2.0), if the machine has
// them.
func instances(t *testing.T) []string {
	t.Helper()
	return examples(t, "SMARTDRIVE_TEST_XRECHNUNG", "xrechnung", 80)
}

// examples returns the XML files in a directory of public examples: the one that the environment
// variable names, or else the one next to the clone. It skips the test if there is none.
func examples(t *testing.T, variable, name string, least int) []string {
	t.Helper()
	dir := cmp.Or(os.Getenv(variable), filepath.Join("../../../../../shared/testdata", name))
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv(variable) != "" {
			t.Fatalf("%s: %v", variable, err)
		}
		t.Skipf("neither %s nor ../shared/testdata/%s is a directory of examples: %v", variable, name, err)
	}
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".xml") {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) < least {
		t.Fatalf("%d instances, error %v", len(found), err)
	}
	return found
}

// mustDecode decodes the only document of a file.
func mustDecode(t *testing.T, text []byte) *invoice.Document {
	t.Helper()
	for d, err := range Decode(Sniff(text[:min(len(text), SniffBytes)]), bytes.NewReader(text), Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	t.Fatal("no document")
	return nil
}

func TestXRechnungInstancesAreRead(t *testing.T) {
	t.Parallel()
	for _, path := range instances(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		d := mustDecode(t, text)
		if !d.Key().Complete() || len(d.Lines) == 0 || !d.Totals.Payable.Given() || len(d.Repeated) > 0 || len(d.OtherCurrencies) > 0 {
			t.Errorf("%s: key %v, %d lines, totals %v, repeated %v, other currencies %v",
				filepath.Base(path), d.Key(), len(d.Lines), d.Totals, d.Repeated, d.OtherCurrencies)
		}
	}
}

// unequal lists the twins with different content, and the members that differ. Each difference was
// verified in both files.
var unequal = map[string]string{
	"01.02a-INVOICE": "PurchaseOrder", // UBL requires an ID next to SalesOrderID, and has a dummy
	"01.08a-INVOICE": "PurchaseOrder",
	"01.09a-INVOICE": "PurchaseOrder",
	"01.10a-INVOICE": "PurchaseOrder",
	"01.11a-INVOICE": "PurchaseOrder",
	"01.12a-INVOICE": "PurchaseOrder",
	"01.13a-INVOICE": "PurchaseOrder",
	"01.20a-INVOICE": "Seller",                // [Seller street] and [Street]
	"01.21a-INVOICE": "Seller Payments Taxes", // another VAT id, text of payment, exemption reason
	"03.01a-INVOICE": "Buyer",                 // a trading name in UBL only
	"03.06a-INVOICE": "Seller Buyer",          // city and postal code are swapped in UBL
	"03.07a-INVOICE": "Seller Payee",          // identifiers in CII only

	"01.01_comprehensive_test": "Preceding Seller Buyer Payee", // CII allows one preceding invoice; identifiers in CII only
	"01.02_comprehensive_test": "Buyer Payee",                  // the buyer's names are swapped; identifiers in CII only
	"01.03_comprehensive_test": "Seller Buyer Payee",           // the same, and another contact
	"01.04_comprehensive_test": "Seller Buyer Payee",
	"01.05_minimal_test":       "Totals",             // a total of VAT, 0, in UBL only
	"02.01a-cvd_INVOICE":       "Seller Payee Lines", // identifiers in CII only; another item attribute
}

func TestXRechnungTwinsAreEqual(t *testing.T) {
	t.Parallel()
	twins, equal := 0, 0
	for _, path := range instances(t) {
		name, isUBL := strings.CutSuffix(filepath.Base(path), "_ubl.xml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		twin, err := os.ReadFile(strings.TrimSuffix(path, "ubl.xml") + "uncefact.xml")
		if err != nil || !isUBL {
			continue
		}
		twins++
		a, b := mustDecode(t, text), mustDecode(t, twin)
		if got := differing(a, b); got != unequal[name] {
			t.Errorf("%s differ in %q, want %q (-UBL +CII):\n%s", name, got, unequal[name], gocmp.Diff(a, b))
		} else if got == "" {
			equal++
			if a.Hash() != b.Hash() {
				t.Errorf("%s: equal, and their hashes are not", name)
			}
		}
	}
	if twins != 40 || equal != twins-len(unequal) {
		t.Errorf("%d twins, %d of them equal", twins, equal)
	}
}

// differing returns the names of the members in which two documents differ.
func differing(a, b *invoice.Document) string {
	var names []string
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		if !gocmp.Equal(va.Field(i).Interface(), vb.Field(i).Interface()) {
			names = append(names, va.Type().Field(i).Name)
		}
	}
	return strings.Join(names, " ")
}
