package export

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/export/zipline"
)

// indexName is what the list of all entries is called, beside the directory of the documents; that
// of part 2 of 3 is index-2of3.csv.
const indexName = "index"

// line is an entry as the index tells of it.
type line struct {
	row   sealRow
	entry int // among the zip's; -1: it is not there
}

// index is the list of all entries of a batch as CSV, whose names in the zip are known. It begins
// with the mark by which editors know UTF-8.
func index(lines []line, names []string) ([]byte, error) {
	b := bytes.NewBufferString("\ufeff")
	w := csv.NewWriter(b)
	w.UseCRLF = true
	write := func(fields ...string) {
		for i := range fields {
			fields[i] = harmless(fields[i])
		}
		_ = w.Write(fields) // Error says whether it failed
	}
	write("n", "id", "name", "source", "size", "modified", "state", "reason")
	for _, l := range lines {
		n := strconv.FormatInt(l.row.n, 10)
		if l.entry < 0 {
			write(n, l.row.doc, "", l.row.path, "", "", "missing", l.row.reason)
			continue
		}
		modified := ""
		if l.row.mtime != 0 {
			modified = l.row.mtime.Std().UTC().Format("2006-01-02T15:04:05Z")
		}
		write(n, l.row.doc, names[l.entry], l.row.path, strconv.FormatInt(int64(l.row.size), 10), modified, "packed", "")
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// harmless keeps a spreadsheet from taking a text of a sender for a formula (OWASP, CSV injection):
// it begins with a quote then.
func harmless(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

// finish names the entries of a batch, and adds the list of failures and the index where there are
// some.
func (s *sealing) finish(p part, when drive.Time) ([]zipline.Entry, error) {
	if s.indexed {
		s.wanted = append(s.wanted, indexName+p.suffix()+".csv")
		s.entries = append(s.entries, zipline.Entry{})
	}
	entries := p.named(s.entries, s.wanted, s.report.Bytes(), when)
	if !s.indexed {
		return entries, nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	text, err := index(s.lines, names)
	if err != nil {
		return nil, err
	}
	at := len(s.wanted) - 1
	entries[at] = zipline.Text(entries[at].Name, when, text)
	return entries, nil
}
