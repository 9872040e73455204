package syntax

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"testing"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

const benchDocs = 64

// samples returns benchDocs invoices, each encoded by write, and their total size.
func samples(write func(*invoice.Document) []byte, of func(uint64) *invoice.Document) (texts [][]byte, size int64) {
	for seed := range uint64(benchDocs) {
		text := write(of(seed + 1))
		texts, size = append(texts, text), size+int64(len(text))
	}
	return texts, size
}

func oneLine(d *invoice.Document) []byte { return invoicetest.NDJSON(d) }

// run measures work on each sample and reports documents per second on one core.
func run(b *testing.B, texts [][]byte, size int64, work func(text []byte)) {
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		for _, text := range texts {
			work(text)
		}
	}
	b.ReportMetric(float64(benchDocs)*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
}

func decodeOne(b *testing.B, format Format) func([]byte) {
	return func(text []byte) {
		for _, err := range Decode(format, bytes.NewReader(text), Limits{}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		format Format
		write  func(*invoice.Document) []byte
		of     func(uint64) *invoice.Document
	}{
		{UBL, invoicetest.UBL, invoicetest.New},
		{CII, invoicetest.CII, invoicetest.New},
		{Fapiao, invoicetest.Fapiao, invoicetest.Chinese},
		{NDJSON, oneLine, invoicetest.New},
	} {
		texts, size := samples(c.write, c.of)
		b.Run(c.format.String(), func(b *testing.B) { run(b, texts, size, decodeOne(b, c.format)) })
	}
}

// BenchmarkBaseline measures the standard library on the same bytes: structs for a part of the
// elements that Decode reads, floats or texts for amounts, no limits, no detection of repeated
// elements.
func BenchmarkBaseline(b *testing.B) {
	texts, size := samples(invoicetest.UBL, invoicetest.New)
	b.Run("ubl", func(b *testing.B) {
		run(b, texts, size, func(text []byte) {
			var into standardUBL
			if err := xml.Unmarshal(text, &into); err != nil || len(into.Lines)+len(into.CreditLines) == 0 {
				b.Fatal(err)
			}
		})
	})
	texts, size = samples(oneLine, invoicetest.New)
	b.Run("ndjson", func(b *testing.B) {
		run(b, texts, size, func(text []byte) {
			var into invoice.Document
			if err := json.Unmarshal(text, &into); err != nil || len(into.Lines) == 0 {
				b.Fatal(err)
			}
		})
	})
}

func BenchmarkValidate(b *testing.B) {
	docs := make([]*invoice.Document, benchDocs)
	for i := range docs {
		docs[i] = invoicetest.New(uint64(i + 1))
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, d := range docs {
			if findings := rule.Validate(d); len(findings) > 0 {
				b.Fatal(findings)
			}
		}
	}
	b.ReportMetric(float64(benchDocs)*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
}

func BenchmarkHash(b *testing.B) {
	d := invoicetest.New(1)
	b.ReportAllocs()
	for b.Loop() {
		d.Hash()
	}
}

// BenchmarkBundle decodes, validates and hashes a member of 20,000 invoices on one core.
func BenchmarkBundle(b *testing.B) {
	var all bytes.Buffer
	for seed := range uint64(20_000) {
		all.Write(oneLine(invoicetest.New(seed)))
	}
	b.SetBytes(int64(all.Len()))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for d, err := range Decode(NDJSON, bytes.NewReader(all.Bytes()), Limits{}) {
			if err != nil || !rule.Valid(rule.Validate(d)) || !d.Key().Complete() {
				b.Fatal(err)
			}
			d.Hash()
			n++
		}
		if n != 20_000 {
			b.Fatal(n)
		}
	}
}

type (
	standardParty struct {
		Endpoint string   `xml:"Party>EndpointID"`
		IDs      []string `xml:"Party>PartyIdentification>ID"`
		Trade    string   `xml:"Party>PartyName>Name"`
		Street   string   `xml:"Party>PostalAddress>StreetName"`
		City     string   `xml:"Party>PostalAddress>CityName"`
		Zone     string   `xml:"Party>PostalAddress>PostalZone"`
		Country  string   `xml:"Party>PostalAddress>Country>IdentificationCode"`
		Tax      []string `xml:"Party>PartyTaxScheme>CompanyID"`
		Name     string   `xml:"Party>PartyLegalEntity>RegistrationName"`
		Legal    string   `xml:"Party>PartyLegalEntity>CompanyID"`
		Contact  string   `xml:"Party>Contact>Name"`
		Phone    string   `xml:"Party>Contact>Telephone"`
		Mail     string   `xml:"Party>Contact>ElectronicMail"`
	}
	standardAmount struct {
		Value    string `xml:",chardata"`
		Currency string `xml:"currencyID,attr"`
	}
	standardLine struct {
		ID       string         `xml:"ID"`
		Quantity string         `xml:"InvoicedQuantity"`
		Net      standardAmount `xml:"LineExtensionAmount"`
		Name     string         `xml:"Item>Name"`
		Text     string         `xml:"Item>Description"`
		Category string         `xml:"Item>ClassifiedTaxCategory>ID"`
		Rate     string         `xml:"Item>ClassifiedTaxCategory>Percent"`
		Price    standardAmount `xml:"Price>PriceAmount"`
	}
	standardUBL struct {
		Profile     string           `xml:"CustomizationID"`
		Number      string           `xml:"ID"`
		Date        string           `xml:"IssueDate"`
		Due         string           `xml:"DueDate"`
		Type        string           `xml:"InvoiceTypeCode"`
		Notes       []string         `xml:"Note"`
		Currency    string           `xml:"DocumentCurrencyCode"`
		Order       string           `xml:"OrderReference>ID"`
		Seller      standardParty    `xml:"AccountingSupplierParty"`
		Buyer       standardParty    `xml:"AccountingCustomerParty"`
		Account     string           `xml:"PaymentMeans>PayeeFinancialAccount>ID"`
		Taxes       []standardAmount `xml:"TaxTotal>TaxSubtotal>TaxAmount"`
		Bases       []standardAmount `xml:"TaxTotal>TaxSubtotal>TaxableAmount"`
		Net         standardAmount   `xml:"LegalMonetaryTotal>TaxExclusiveAmount"`
		Gross       standardAmount   `xml:"LegalMonetaryTotal>TaxInclusiveAmount"`
		Payable     standardAmount   `xml:"LegalMonetaryTotal>PayableAmount"`
		Lines       []standardLine   `xml:"InvoiceLine"`
		CreditLines []standardLine   `xml:"CreditNoteLine"`
	}
)
