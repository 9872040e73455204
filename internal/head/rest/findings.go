package rest

import (
	"bufio"
	"context"
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/text/language"

	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/intake/ingest"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// findingLanguage is the language that findings are rendered in.
type findingLanguage struct{ rule.Language }

// findingsIn returns the language of the query parameter "lang", else of Accept-Language, else
// English.
func (c *call) findingsIn() findingLanguage {
	header := c.r.Header.Get("Accept-Language")
	switch c.query.Get(langParam.name) {
	case "en":
		return findingLanguage{rule.English}
	case "de":
		return findingLanguage{rule.German}
	case "zh-CN":
		return findingLanguage{rule.Chinese}
	}
	c.w.Header().Add("Vary", "Accept-Language")
	if problem.Negotiate(header) == problem.Chinese {
		return findingLanguage{rule.Chinese}
	}
	if first, _, _ := strings.Cut(header, ","); prefersGerman(first) {
		return findingLanguage{rule.German}
	}
	return findingLanguage{rule.English}
}

// prefersGerman reports whether a language range is German. first may carry a weight.
func prefersGerman(first string) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(first), ";")
	tag, err := language.Parse(name)
	if err != nil {
		return false
	}
	base, _ := tag.Base()
	return base.String() == "de"
}

// translate sets the findings of a record to this language.
func (l findingLanguage) translate(r *ingest.BundleRecord) {
	for i := range r.Findings {
		r.Findings[i] = r.Findings[i].In(l.Language)
	}
}

// rejectionColumns is the header line of the CSV of rejections.
var rejectionColumns = []string{
	"source", "bundle", "ended_at", "member", "place", "number", "count", "reason", "rule", "severity", "text", "terms", "xpath", "line", "expected", "found",
}

// sendRejections streams all rejections that match a filter as CSV. A failure after the first page
// aborts the connection, so that the client does not take the list for complete.
func (b bundles) sendRejections(ctx context.Context, c *call, f ingest.RejectedFilter, said findingLanguage) (reply, error) {
	page, err := b.intake.Rejections(ctx, c.who, f, c.query.Get(cursor.name), rowsPerQuery)
	if err != nil {
		return reply{}, err
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", disposition("rejections.csv", false))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, no-store")
	c.w.WriteHeader(http.StatusOK)
	to := bufio.NewWriter(c.w)
	out := csv.NewWriter(to)
	err = out.Write(rejectionColumns)
	for err == nil && len(page) > 0 {
		for i := range page {
			if err = said.writeRows(out, &page[i]); err != nil {
				break
			}
		}
		if err != nil || len(page) < rowsPerQuery {
			break
		}
		page, err = b.intake.Rejections(ctx, c.who, f, page[len(page)-1].Cursor(), rowsPerQuery)
	}
	out.Flush()
	if err == nil {
		err = out.Error()
	}
	if err == nil {
		err = to.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return reply{}, nil
}

// writeRows writes one row per finding, or one row if there is none. It translates r in place and
// fails with a write error.
func (l findingLanguage) writeRows(out *csv.Writer, r *ingest.Rejection) error {
	l.translate(&r.BundleRecord)
	ended, reason := "", ""
	if r.Ended != 0 {
		ended = r.Ended.String()
	}
	if r.Reason != nil {
		reason = *r.Reason
	}
	head := []string{
		escapeFormula(r.Source), r.Bundle.String(), ended, escapeFormula(r.Member), r.Place, escapeFormula(r.Number), strconv.FormatInt(r.Count, 10), reason,
	}
	all := r.Findings
	if len(all) == 0 {
		all = []ingest.DocumentFinding{{}}
	}
	for _, f := range all {
		line := ""
		if f.Line > 0 {
			line = strconv.Itoa(f.Line)
		}
		err := out.Write(append(append([]string{}, head...), f.Rule, f.Severity, escapeFormula(f.Text), strings.Join(f.Terms, " "), f.Place, line, f.Expected, f.Found))
		if err != nil {
			return err
		}
	}
	return nil
}
