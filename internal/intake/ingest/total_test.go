package ingest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/invoice"
)

// TestTotals checks that sums are exact and per currency, and that credit notes are subtracted.
func TestTotals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	euro, other := doc("1", 1), doc("3", 3)
	other.Seller, other.Date = invoice.Party{Name: "Zweite AG", VATID: "DE111111111", Address: other.Seller.Address}, invoice.NewDate(2026, 11, 1)
	dollars := doc("4", 1)
	dollars.Currency = "USD"
	credit := doc("5", 2)
	credit.Type = "381"
	large := doc("6", 1_000_000_000_000_000) // beyond the precision of a float
	large.Currency = "JPY"
	w.send(t, newParcel("acme").lines("a.ndjson", euro, other, dollars, credit, large))
	w.finish(t, in)
	list := func(f Filter, by By) (all []string) {
		t.Helper()
		totals, err := in.Totals(t.Context(), w.who, f, by)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range totals {
			all = append(all, fmt.Sprintf("%s %s%s %d-%d: %s + %s = %s, %s", x.Key, x.Name, x.Currency, x.Documents, x.Credits, x.Net, x.Tax, x.Gross, x.Payable))
		}
		return all
	}
	for _, c := range []struct {
		by   By
		f    Filter
		want []string
	}{
		{by: ByCurrency, want: []string{
			"EUR EUR 3-1: 2 + 0.38 = 2.38, 2.38", "JPY JPY 1-0: 1000000000000000 + 190000000000000 = 1190000000000000, 1190000000000000",
			"USD USD 1-0: 1 + 0.19 = 1.19, 1.19",
		}},
		{by: ByMonth, f: Filter{Currency: "EUR"}, want: []string{"2026-10 EUR 2-1: -1 + -0.19 = -1.19, -1.19", "2026-11 EUR 1-0: 3 + 0.57 = 3.57, 3.57"}},
		{by: BySeller, f: Filter{Currency: "EUR"}, want: []string{
			"DE111111111 Zweite AGEUR 1-0: 3 + 0.57 = 3.57, 3.57", "DE123456789 Muster AGEUR 2-1: -1 + -0.19 = -1.19, -1.19",
		}},
		{by: ByVAT, f: Filter{Month: "2026-10", Currency: "EUR"}, want: []string{"S 19 EUR 2-1: -1 + -0.19 = -1.19, 0"}},
		{by: ByVAT, f: Filter{Month: "2026-12"}},
	} {
		if diff := cmp.Diff(c.want, list(c.f, c.by)); diff != "" {
			t.Errorf("by %s: %s", c.by, diff)
		}
	}
	// More documents than one statement reads.
	w.send(t, newParcel("many").lines("a.ndjson", docs("M", folderPage+1)...))
	w.finish(t, in)
	n := int64(folderPage + 1)
	if all := list(Filter{Source: "many"}, ByCurrency); len(all) != 1 || all[0] != fmt.Sprintf("EUR EUR %d-0: %s + %s = %s, %s", n,
		invoice.NewDecimal(n*(n+1)/2, 0), invoice.NewDecimal(n*(n+1)/2*19, 2), invoice.NewDecimal(n*(n+1)/2*119, 2), invoice.NewDecimal(n*(n+1)/2*119, 2)) {
		t.Errorf("%v", all)
	}
	stranger := drive.Who{Account: drive.NewID[drive.AccountID]()}
	if all, err := in.Totals(t.Context(), stranger, Filter{}, ByCurrency); err != nil || len(all) != 0 {
		t.Errorf("somebody else sees %v, error %v", all, err)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE documents SET body = ? WHERE number = '1'", []byte("damaged"))
		return err
	})
	if all, err := in.Totals(t.Context(), w.who, Filter{}, ByCurrency); err == nil {
		t.Errorf("a model that cannot be read is left out: %v", all)
	}
}
