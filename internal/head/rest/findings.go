package rest

import (
	"bufio"
	"context"
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/text/language"

	"smartdrive/internal/head/problem"
	"smartdrive/internal/intake/ingest"
	"smartdrive/internal/intake/invoice/rule"
)

// speech is the language that findings are said in.
type speech struct{ rule.Language }

// findingsIn is the language that the query asks for, or else the header.
func (c *call) findingsIn() speech {
	header := c.r.Header.Get("Accept-Language")
	switch c.query.Get(langParam.name) {
	case "en":
		return speech{rule.English}
	case "de":
		return speech{rule.German}
	case "zh-CN":
		return speech{rule.Chinese}
	}
	c.w.Header().Add("Vary", "Accept-Language")
	if problem.Negotiate(header) == problem.Chinese {
		return speech{rule.Chinese}
	}
	if first, _, _ := strings.Cut(header, ","); prefersGerman(first) {
		return speech{rule.German}
	}
	return speech{rule.English}
}

// prefersGerman reports whether the first language of a header is German.
func prefersGerman(first string) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(first), ";")
	tag, err := language.Parse(name)
	if err != nil {
		return false
	}
	base, _ := tag.Base()
	return base.String() == "de"
}

// record says the findings of a record.
func (s speech) record(r *ingest.BundleRecord) {
	for i := range r.Findings {
		r.Findings[i] = r.Findings[i].In(s.Language)
	}
}

var rejectionColumns = []string{
	"source", "bundle", "ended_at", "member", "place", "number", "count", "reason", "rule", "severity", "text", "terms", "xpath", "line", "expected", "found",
}

// sendRejections sends all rejections of a filter as CSV. What fails after the first page breaks
// the connection off, and the list is not taken for whole.
func (b bundles) sendRejections(ctx context.Context, c *call, f ingest.RejectedFilter, said speech) (reply, error) {
	page, err := b.intake.Rejections(ctx, c.who, f, c.query.Get(cursor.name), sheetPage)
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
			if err = said.lines(out, &page[i]); err != nil {
				break
			}
		}
		if err != nil || len(page) < sheetPage {
			break
		}
		page, err = b.intake.Rejections(ctx, c.who, f, page[len(page)-1].Cursor(), sheetPage)
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

// lines writes a line for each finding, or one where there is none.
func (s speech) lines(out *csv.Writer, r *ingest.Rejection) error {
	s.record(&r.BundleRecord)
	ended, reason := "", ""
	if r.Ended != 0 {
		ended = r.Ended.String()
	}
	if r.Reason != nil {
		reason = *r.Reason
	}
	head := []string{
		harmless(r.Source), r.Bundle.String(), ended, harmless(r.Member), r.Place, harmless(r.Number), strconv.FormatInt(r.Count, 10), reason,
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
		err := out.Write(append(append([]string{}, head...), f.Rule, f.Severity, harmless(f.Text), strings.Join(f.Terms, " "), f.Place, line, f.Expected, f.Found))
		if err != nil {
			return err
		}
	}
	return nil
}
