package rest

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/ingest"
)

// listFormat is the format of a full list of documents, which is streamed while it is read. begin
// returns functions that write a document and finish the file.
type listFormat struct {
	mime, name string
	begin      func(w io.Writer) (write func(ingest.Document) error, end func() error)
}

// listFormatOf returns the format of the full list that the request asks for; nil if it asks for a
// page.
func listFormatOf(c *call) *listFormat {
	format, accept := c.query.Get(formatParam.name), c.r.Header.Get("Accept")
	switch {
	case format == "csv", format == "" && strings.HasPrefix(accept, "text/csv"):
		return &listFormat{"text/csv; charset=utf-8; header=present", "documents.csv", writeCSV}
	case format == "ndjson", format == "" && strings.HasPrefix(accept, "application/x-ndjson"):
		return &listFormat{"application/x-ndjson", "documents.ndjson", writeJSONLines}
	}
	return nil
}

// rowsPerQuery is how many rows of a full list are read per query.
const rowsPerQuery = 500

// sendAll streams all documents that match a filter. It reads the first page before it writes the
// header, so that a faulty request gets an error. A later failure aborts the connection, so that
// the client does not take the list for complete.
func (d documents) sendAll(ctx context.Context, c *call, f ingest.Filter, s *listFormat) (reply, error) {
	page, err := d.intake.Documents(ctx, c.who, f, c.query.Get(cursor.name), rowsPerQuery)
	if err != nil {
		return reply{}, err
	}
	h := c.w.Header()
	h.Set("Content-Type", s.mime)
	h.Set("Content-Disposition", disposition(s.name, false))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, no-store")
	c.w.WriteHeader(http.StatusOK)
	to := bufio.NewWriter(c.w)
	write, end := s.begin(to)
	for len(page) > 0 && err == nil {
		for _, d := range page {
			if err = write(d); err != nil {
				break
			}
		}
		if len(page) < rowsPerQuery || err != nil {
			break
		}
		page, err = d.intake.Documents(ctx, c.who, f, page[len(page)-1].Place(), rowsPerQuery)
	}
	if err == nil {
		err = end()
	}
	if err == nil {
		err = to.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return reply{}, nil
}

// writeJSONLines returns a function that writes one document as a line of JSON, and one that ends
// the list, which does nothing.
func writeJSONLines(w io.Writer) (func(ingest.Document) error, func() error) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(d ingest.Document) error { return enc.Encode(d) }, func() error { return nil }
}

// documentColumns is the header line of the CSV of documents, in the order of writeCSV.
var documentColumns = []string{
	"id", "source", "type", "number", "date", "seller_id", "seller_name", "buyer_id", "buyer_name", "currency", "total", "payable", "state",
	"file", "pdf", "bundle",
}

// writeCSV writes the header line and returns a function that writes one document, and one that
// flushes at the end. The caller must call the latter; a failed write is returned by either.
func writeCSV(w io.Writer) (func(ingest.Document) error, func() error) {
	out := csv.NewWriter(w)
	err := out.Write(documentColumns)
	return func(d ingest.Document) error {
			if err != nil {
				return err
			}
			return out.Write([]string{
				d.ID.String(), escapeFormula(d.Source), escapeFormula(d.Type), escapeFormula(d.Number), d.Date, escapeFormula(d.Seller.ID), escapeFormula(d.Seller.Name),
				escapeFormula(d.Buyer.ID), escapeFormula(d.Buyer.Name), escapeFormula(d.Currency), d.Total, d.Payable, d.State, idText(d.File), idText(d.PDF),
				d.Bundle.String(),
			})
		}, func() error {
			out.Flush()
			return out.Error()
		}
}

// sendTotals sends totals as CSV and aborts the connection if that fails.
func sendTotals(c *call, by ingest.By, all []ingest.Total) (reply, error) {
	h := c.w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", disposition("totals-"+string(by)+".csv", false))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, no-store")
	c.w.WriteHeader(http.StatusOK)
	out := csv.NewWriter(c.w)
	err := out.Write([]string{string(by), "name", "currency", "documents", "credits", "net", "tax", "gross", "payable"})
	for _, t := range all {
		if err != nil {
			break
		}
		payable := t.Payable.String()
		if by == ingest.ByVAT {
			payable = ""
		}
		err = out.Write([]string{
			escapeFormula(t.Key), escapeFormula(t.Name), escapeFormula(t.Currency), strconv.FormatInt(t.Documents, 10), strconv.FormatInt(t.Credits, 10),
			t.Net.String(), t.Tax.String(), t.Gross.String(), payable,
		})
	}
	out.Flush()
	if errors.Join(err, out.Error()) != nil {
		panic(http.ErrAbortHandler)
	}
	return reply{}, nil
}

// idText returns the id as text, or "" for nil.
func idText(id *drive.NodeID) string {
	if id == nil {
		return ""
	}
	return id.String()
}

// escapeFormula prefixes a text with a quote if a spreadsheet would evaluate it as a formula
// (OWASP, CSV injection).
func escapeFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}
