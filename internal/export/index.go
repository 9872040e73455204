package export

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/export/zipline"
)

// indexName is the base name of the CSV index beside the directory of the documents; for part 2 of
// 3 the file is index-2of3.csv.
const indexName = "index"

// indexLine is one entry of the index.
type indexLine struct {
	row   sealRow
	entry int // position in the zip; -1: not in the zip
}

// renderIndex renders the CSV index of a batch. names holds the final names in the zip, by
// position. The file starts with a byte order mark, so that spreadsheet programs detect UTF-8.
func renderIndex(lines []indexLine, names []string) ([]byte, error) {
	b := bytes.NewBufferString("\ufeff")
	w := csv.NewWriter(b)
	w.UseCRLF = true
	write := func(fields ...string) {
		for i := range fields {
			fields[i] = escapeFormula(fields[i])
		}
		_ = w.Write(fields) // w.Error reports it
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

// escapeFormula escapes a text that a spreadsheet would run as a formula (OWASP, CSV injection)
// with a leading quote.
func escapeFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

// finish returns the entries of the zip with their final names. It appends err.txt if entries
// failed, and the index if it is asked for. Both get the modification time when.
func (b *zipBuilder) finish(p part, when drive.Time) ([]zipline.Entry, error) {
	if b.indexed {
		b.wanted = append(b.wanted, indexName+p.suffix()+".csv")
		b.entries = append(b.entries, zipline.Entry{})
	}
	entries := p.nameEntries(b.entries, b.wanted, b.report.Bytes(), when)
	if !b.indexed {
		return entries, nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	text, err := renderIndex(b.lines, names)
	if err != nil {
		return nil, err
	}
	at := len(b.wanted) - 1
	entries[at] = zipline.Text(entries[at].Name, when, text)
	return entries, nil
}
