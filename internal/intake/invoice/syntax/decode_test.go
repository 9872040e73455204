package syntax

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// generated returns documents that together use every member of the model.
func generated() map[string]*invoice.Document {
	docs := map[string]*invoice.Document{"full": invoicetest.Full(1)}
	for seed := range uint64(64) {
		docs[fmt.Sprintf("new %d", seed)] = invoicetest.New(seed)
	}
	for category, rate := range map[string]int64{"S": 19, "Z": 0, "E": 0, "AE": 0, "K": 0, "G": 0, "O": 0, "L": 7, "M": 0} {
		docs["of "+category] = invoicetest.Of(3, category, rate)
	}
	return docs
}

func TestSyntaxesGiveEqualDocuments(t *testing.T) {
	t.Parallel()
	for name, want := range generated() {
		for syntax, text := range map[string][]byte{
			"ubl": invoicetest.UBL(want), "cii": invoicetest.CII(want), "ndjson": invoicetest.NDJSON(want),
		} {
			if got := Sniff(text).String(); got != syntax {
				t.Errorf("%s: sniffed %s, want %s", name, got, syntax)
			}
			got := mustDecode(t, text)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", name, syntax, diff)
			}
			if got.Hash() != want.Hash() || got.Key() != want.Key() {
				t.Errorf("%s in %s: another hash or key", name, syntax)
			}
		}
	}
}

func TestChineseInvoicesAreRead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(64) {
		want := invoicetest.Chinese(seed)
		for syntax, text := range map[string][]byte{"fapiao": invoicetest.Fapiao(want), "ndjson": invoicetest.NDJSON(want)} {
			if got := Sniff(text).String(); got != syntax {
				t.Errorf("sniffed %s, want %s", got, syntax)
			}
			if diff := cmp.Diff(want, mustDecode(t, text)); diff != "" {
				t.Errorf("seed %d in %s (-want +got):\n%s", seed, syntax, diff)
			}
		}
	}
}
