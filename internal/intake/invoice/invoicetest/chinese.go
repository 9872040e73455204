package invoicetest

import (
	"fmt"
	"math/rand/v2"

	"example.org/smartdrive/internal/intake/invoice"
)

// Chinese returns a valid fully digital invoice with 1 to 4 lines at 13, 6 and 0 %. Its tax numbers
// begin with 0000, which is not a valid region.
func Chinese(seed uint64) *invoice.Document {
	g := generator{rand.New(rand.NewPCG(seed, 13)), seed}
	d := &invoice.Document{
		Profile: invoice.ProfileFapiao, Number: fmt.Sprintf("%020d", seed), Date: g.date(), Type: "380", Variant: "02 普通发票", Currency: "CNY",
		Seller: g.taxpayer("示例销售有限公司"), Buyer: g.taxpayer("示例购买有限公司"),
		Notes: []invoice.Note{{Text: "样例发票，仅供测试"}},
	}
	for range 1 + g.IntN(4) {
		line := g.line(0, "S", []int64{13, 6, 0}[g.IntN(3)])
		if line.Rate.Sign() == 0 {
			line.Category = "Z"
		}
		line.ID, line.SellerItem, line.Unit, line.Name, line.Description = "", "", "件", "*示例*商品", "A4"
		line.Tax = line.Net.Percent(line.Rate).Round(2)
		d.Lines = append(d.Lines, line)
	}
	for i := range d.Lines {
		line := &d.Lines[i]
		tax(d, line.Category, line.Rate, line.Net)
		at := len(d.Taxes) - 1
		for j := range d.Taxes {
			if d.Taxes[j].Rate.Equal(line.Rate) {
				at = j
			}
		}
		d.Taxes[at].Amount = d.Taxes[at].Amount.Add(line.Tax)
		d.Totals.Net, d.Totals.Tax = d.Totals.Net.Add(line.Net), d.Totals.Tax.Add(line.Tax)
	}
	d.Totals.Gross = d.Totals.Net.Add(d.Totals.Tax)
	d.Totals.Payable = d.Totals.Gross
	return d
}

// taxpayer returns a party with a Chinese tax number.
func (g generator) taxpayer(name string) invoice.Party {
	return invoice.Party{Name: fmt.Sprintf("%s%d", name, g.IntN(1000)), TaxID: fmt.Sprintf("0000%014d", g.IntN(1_000_000))}
}
