package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// By selects the key to group totals by, in addition to the currency.
type By string

// Grouping keys.
const (
	ByCurrency By = "currency"
	BySeller   By = "seller"
	ByMonth    By = "month" // of the document's date
	ByVAT      By = "vat"   // category and rate
)

// Total is the sum of the documents of one key and currency. Amounts are exact. Credit notes are
// subtracted.
type Total struct {
	Key       string          `json:"key" doc:"key of the group: month, seller's id (or name), category and rate of VAT, or currency"`
	Name      string          `json:"name,omitempty" doc:"name of the seller"`
	Currency  string          `json:"currency"`
	Documents int64           `json:"documents" doc:"number of documents, including credit notes"`
	Credits   int64           `json:"credits" doc:"number of credit notes"`
	Net       invoice.Decimal `json:"net" doc:"total without VAT; grouped by VAT the taxable amount; exact decimal, therefore a string"`
	Tax       invoice.Decimal `json:"tax"`
	Gross     invoice.Decimal `json:"gross" doc:"total with VAT"`
	Payable   invoice.Decimal `json:"payable" doc:"payable amount; empty when grouped by VAT"`
}

// Limits of totals: documents that one call adds up, which takes some 5 s, and rows of its result.
const (
	MostAdded  = 100_000
	mostTotals = 10_000
)

// Totals returns the sums of the documents of the caller's account that match f, sorted by key and
// currency. BadRequest: f matches more than MostAdded documents, or the result has more than 10,000
// rows; the caller must narrow the filter.
func (in *Intake) Totals(ctx context.Context, who drive.Who, f Filter, by By) ([]Total, error) {
	return in.library.totals(ctx, who, f, by)
}

// totalsByKey holds totals by their key and their currency.
type totalsByKey map[[2]string]*Total

// totals adds up the documents that f selects, by the key of by, reading page by page. It fails if
// f selects more documents than may be added up, or with the error of Filter.where.
func (in *library) totals(ctx context.Context, who drive.Who, f Filter, by By) ([]Total, error) {
	where, args, err := f.where(who.Account)
	if err != nil {
		return nil, err
	}
	all, added := totalsByKey{}, 0
	for date, id, more := "", "", true; more; {
		page, args := where, slices.Clip(args)
		if date != "" {
			page, args = page+" AND (dated, id) < (?, ?)", append(args, date, id)
		}
		rows, err := in.opt.DB.For(who.Account).Query(ctx, "SELECT id, type, dated, seller_id, seller_name, currency, body FROM documents WHERE "+page+
			" ORDER BY dated DESC, id DESC LIMIT ?", append(args, folderPage)...)
		n := 0
		_, err = sqldb.Scan(rows, err, func(_ *struct{}, scan func(...any) error) error {
			var d Document
			var body []byte
			if err := scan(&d.ID, &d.Type, &d.Date, &d.Seller.ID, &d.Seller.Name, &d.Currency, &body); err != nil {
				return err
			}
			n, date, id = n+1, d.Date, d.ID.String()
			return all.add(d, body, by)
		})
		if err != nil {
			return nil, fmt.Errorf("add up documents: %w", err)
		}
		if added += n; added > MostAdded {
			return nil, drive.BadField("filter", drive.OutOfRange, "min", 0, "max", MostAdded, "sent", added)
		}
		if len(all) > mostTotals {
			return nil, drive.BadField("by", drive.OutOfRange, "min", 0, "max", mostTotals, "sent", len(all))
		}
		more = n == folderPage
	}
	return slices.SortedFunc(func(yield func(Total) bool) {
		for t := range maps.Values(all) {
			if !yield(*t) {
				return
			}
		}
	}, func(x, y Total) int {
		if c := strings.Compare(x.Key, y.Key); c != 0 {
			return c
		}
		return strings.Compare(x.Currency, y.Currency)
	}), nil
}

// total returns the total of a key and a currency, and adds a zero one if there is none.
func (all totalsByKey) total(key, name, currency string) *Total {
	at := [2]string{key, currency}
	if all[at] == nil {
		zero := invoice.NewDecimal(0, 0)
		all[at] = &Total{Key: key, Name: name, Currency: currency, Net: zero, Tax: zero, Gross: zero, Payable: zero}
	}
	return all[at]
}

// add adds a document with its packed model to the totals in place; a credit note is subtracted. It
// fails if packed is damaged.
func (all totalsByKey) add(d Document, packed []byte, by By) error {
	var model struct {
		Totals invoice.Totals `json:"totals"`
		Taxes  []invoice.Tax  `json:"taxes"`
	}
	if err := json.NewDecoder(Inflate(packed)).Decode(&model); err != nil {
		return fmt.Errorf("read the totals of document %s: %w", d.ID, err)
	}
	credit := rule.IsCredit(d.Type)
	sign := func(x invoice.Decimal) invoice.Decimal {
		if credit {
			return x.Neg()
		}
		return x
	}
	counted := func(t *Total) {
		if t.Documents++; credit {
			t.Credits++
		}
	}
	if by == ByVAT {
		seen := map[*Total]bool{}
		for _, tax := range model.Taxes {
			t := all.total(strings.TrimSpace(tax.Category+" "+tax.Rate.String()), "", d.Currency)
			if !seen[t] {
				seen[t] = true
				counted(t)
			}
			t.Net, t.Tax = t.Net.Add(sign(tax.Base)), t.Tax.Add(sign(tax.Amount))
			t.Gross = t.Net.Add(t.Tax)
		}
		return nil
	}
	key, name := d.Currency, ""
	if by == BySeller {
		if key, name = d.Seller.ID, d.Seller.Name; key == "" {
			key = name
		}
	}
	if by == ByMonth {
		key = d.Date[:min(len(d.Date), len("2026-10"))]
	}
	t := all.total(key, name, d.Currency)
	counted(t)
	m := model.Totals
	t.Net, t.Tax, t.Gross, t.Payable = t.Net.Add(sign(m.Net)), t.Tax.Add(sign(m.Tax)), t.Gross.Add(sign(m.Gross)), t.Payable.Add(sign(m.Payable))
	return nil
}
