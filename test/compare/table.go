package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
)

// text is a word or sentence in both languages.
type text struct{ en, zh string }

// same returns a text that is the same in both languages, such as a name or a version.
func same(s string) text { return text{s, s} }

type language int

const (
	english language = iota
	chinese
)

func (l language) of(t text) string {
	if l == chinese {
		return t.zh
	}
	return t.en
}

// table holds the results of a comparison.
type table struct {
	comparison

	settings []text // versions and configuration of the compared systems
	warnings []text // what the table lacks; printed before it
	lacking  []text // warnings that make the command fail without --allow-missing
	rows     [][]any

	machine, load string
	began         time.Time
	took          time.Duration
	fast          bool
}

// row adds a row. A cell is a text, a string, an integer, a float, or nil if it does not apply.
func (t *table) row(cells ...any) { t.rows = append(t.rows, cells) }

// set adds settings.
func (t *table) set(settings ...text) { t.settings = append(t.settings, settings...) }

// warn adds a warning.
func (t *table) warn(w text) { t.warnings = append(t.warnings, w) }

// cell formats a figure: three significant digits, thousands grouped.
func cell(v any, l language) string {
	switch v := v.(type) {
	case nil:
		return "–"
	case text:
		return l.of(v)
	case string:
		return v
	case int:
		return grouped(int64(v))
	case int64:
		return grouped(v)
	case float64:
		if v >= 100 || v <= -100 {
			return grouped(int64(v + 0.5))
		}
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return fmt.Sprint(v)
}

// grouped formats an integer with commas between groups of thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// about returns lines on where, when and how the figures were measured.
func (t *table) about(l language) []string {
	lines := []string{
		l.of(text{"machine: ", "机器："}) + t.machine,
		fmt.Sprintf(l.of(text{"measured: %s, load average at the start %s, took %s", "测量：%s，开始时的系统负载 %s，用时 %s"}),
			t.began.Format("2006-01-02 15:04 UTC"), cmpOr(t.load, "?"), t.took.Round(time.Second)),
	}
	for _, s := range t.settings {
		lines = append(lines, l.of(s))
	}
	if t.fast {
		lines = append(lines, l.of(text{"--fast: small sizes; the figures show only that it works", "--fast：规模很小，数字只说明它能运行"}))
	}
	return lines
}

// head returns the column titles.
func (t *table) head(l language) []string {
	head := make([]string, len(t.columns))
	for i, c := range t.columns {
		head[i] = l.of(c)
	}
	return head
}

// cells formats a row.
func (t *table) cells(row []any, l language) []string {
	cells := make([]string, len(row))
	for i, v := range row {
		cells[i] = cell(v, l)
	}
	return cells
}

// writeText prints the table for a terminal.
func (t *table) writeText(out io.Writer, l language) error {
	lines := [][]string{t.head(l)}
	for _, r := range t.rows {
		lines = append(lines, t.cells(r, l))
	}
	width := make([]int, len(t.columns))
	for _, line := range lines {
		for i, c := range line {
			width[i] = max(width[i], runewidth.StringWidth(c))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s  %s  [%s]\n", t.id, l.of(t.title), t.name)
	for _, w := range t.warnings {
		fmt.Fprintf(&b, "!! %s\n", l.of(w))
	}
	for _, a := range t.about(l) {
		fmt.Fprintf(&b, "   %s\n", a)
	}
	for _, line := range lines {
		for i, c := range line {
			if i == 0 {
				b.WriteString(runewidth.FillRight(c, width[i]))
			} else {
				b.WriteString("  " + runewidth.FillLeft(c, width[i]))
			}
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeJSON prints the table as one JSON object on one line.
func (t *table) writeJSON(out io.Writer, l language) error {
	rows := make([]map[string]any, 0, len(t.rows))
	for _, r := range t.rows {
		row := map[string]any{}
		for i, v := range r {
			if v, ok := v.(text); ok {
				row[t.columns[i].en] = l.of(v)
				continue
			}
			row[t.columns[i].en] = v
		}
		rows = append(rows, row)
	}
	var warnings []string
	for _, w := range t.warnings {
		warnings = append(warnings, l.of(w))
	}
	return json.NewEncoder(out).Encode(map[string]any{
		"name": t.name, "id": t.id, "title": l.of(t.title), "machine": t.machine, "load": t.load, "began": t.began,
		"seconds": t.took.Seconds(), "fast": t.fast, "about": t.about(l), "warnings": warnings, "rows": rows,
	})
}

// markdown returns the table in Markdown.
func (t *table) markdown(l language) string {
	var b strings.Builder
	for _, w := range t.warnings {
		fmt.Fprintf(&b, "**%s**\n\n", l.of(w))
	}
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head(l))
	b.WriteString("|---" + strings.Repeat("|---:", len(t.columns)-1) + "|\n")
	for _, r := range t.rows {
		line(t.cells(r, l))
	}
	b.WriteString("\n")
	for _, a := range t.about(l) {
		fmt.Fprintf(&b, "- %s\n", a)
	}
	return b.String()
}

// marks returns the lines between which record writes the table of a comparison.
func marks(name string) (begin, end string) {
	return fmt.Sprintf("<!-- compare %s: written by go run ./test/compare %s --record docs -->\n", name, name), fmt.Sprintf("<!-- end of %s -->", name)
}

// pages are the files that record updates.
var pages = map[language]string{english: "comparisons.md", chinese: "comparisons.zh-CN.md"}

// record replaces the table in the pages below dir. It fails if a page lacks the marks.
func record(dir string, t *table) error {
	for l, page := range pages {
		path := filepath.Join(dir, page)
		old, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		begin, end := marks(t.name)
		before, rest, found := strings.Cut(string(old), begin)
		_, after, ends := strings.Cut(rest, end)
		if !found || !ends {
			return fmt.Errorf("%s has no place for %s", path, t.name)
		}
		if err := os.WriteFile(path, []byte(before+begin+t.markdown(l)+end+after), 0o644); err != nil { //nolint:gosec // a page of the repository
			return err
		}
	}
	return nil
}
