package syntax

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// TestPlacesAreThoseThatAreRead checks that each path that a finding may name is an element that
// the decoder reads.
func TestPlacesAreThoseThatAreRead(t *testing.T) {
	t.Parallel()
	number := regexp.MustCompile(`\[\d+\]`)
	for _, c := range []struct {
		written invoice.Written
		root    string
		tree    *node
		least   int
	}{
		{invoice.Written{Syntax: invoice.UBLSyntax}, "/Invoice/", ublTree(), 110},
		{invoice.Written{Syntax: invoice.UBLSyntax, CreditNote: true}, "/CreditNote/", ublTree(), 110},
		{invoice.Written{Syntax: invoice.CIISyntax}, "/rsm:CrossIndustryInvoice/", ciiTree(), 110},
	} {
		known := 0
		for n := 1; n < 170; n++ {
			for _, kind := range []string{"BT", "BG"} {
				place := rule.PlaceOf(&invoice.Document{Written: c.written}, fmt.Sprintf("%s-%d", kind, n), 2)
				if place == "" {
					continue
				}
				known++
				path, below := strings.CutPrefix(number.ReplaceAllString(place, ""), c.root)
				if !below || !hasElement(c.tree, path) {
					t.Errorf("%s-%d is said to be at %s, which is not read", kind, n, place)
				}
			}
		}
		if known < c.least {
			t.Errorf("%s: %d places", c.root, known)
		}
	}
}

// hasElement reports whether the tree has an element at a path.
func hasElement(at *node, path string) bool {
	for step := range strings.SplitSeq(path, "/") {
		next := at.children[step[strings.IndexByte(step, ':')+1:]]
		if next == nil || next.path != step {
			return false
		}
		at = next
	}
	return true
}

// TestFindingsSayWhere breaks a sum, a line and a party, and checks the path of the finding in each
// syntax.
func TestFindingsSayWhere(t *testing.T) {
	t.Parallel()
	d := invoicetest.Of(3, "S", 19)
	d.Totals.Payable = d.Totals.Payable.Add(invoice.NewDecimal(1, 0))
	d.Lines[1].Name = ""
	d.Taxes[0].Amount = d.Taxes[0].Amount.Add(invoice.NewDecimal(9, 0))
	for name, c := range map[string]struct {
		text []byte
		want map[string]string
	}{
		"UBL": {invoicetest.UBL(d), map[string]string{
			"BR-CO-16": "/Invoice/cac:LegalMonetaryTotal/cbc:PayableAmount", "BR-25": "/Invoice/cac:InvoiceLine[2]/cac:Item/cbc:Name",
			"BR-S-09": "/Invoice/cac:TaxTotal/cac:TaxSubtotal[1]/cbc:TaxAmount",
		}},
		"CII": {invoicetest.CII(d), map[string]string{
			"BR-CO-16": "/rsm:CrossIndustryInvoice/rsm:SupplyChainTradeTransaction/ram:ApplicableHeaderTradeSettlement/ram:SpecifiedTradeSettlementHeaderMonetarySummation/ram:DuePayableAmount",
			"BR-25":    "/rsm:CrossIndustryInvoice/rsm:SupplyChainTradeTransaction/ram:IncludedSupplyChainTradeLineItem[2]/ram:SpecifiedTradeProduct/ram:Name",
			"BR-S-09":  "/rsm:CrossIndustryInvoice/rsm:SupplyChainTradeTransaction/ram:ApplicableHeaderTradeSettlement/ram:ApplicableTradeTax[1]/ram:CalculatedAmount",
		}},
	} {
		got := map[string]string{}
		for _, f := range rule.Validate(mustDecode(t, c.text)) {
			got[f.Rule] = f.Place
		}
		for id, want := range c.want {
			if got[id] != want {
				t.Errorf("%s: %s is at %q, want %q", name, id, got[id], want)
			}
		}
	}
}
