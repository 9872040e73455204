package demo

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
)

// text is a sentence in both languages of the program.
type text struct{ en, zh string }

// printer writes the narration of one story.
type printer struct {
	o     Options
	story string
	step  int
	err   error // the first error of writing
}

func (p *printer) in(t text) string {
	if p.o.Chinese {
		return t.zh
	}
	return t.en
}

// event is a line of the narration with --json.
type event struct {
	Story string              `json:"story"`
	Step  int                 `json:"step"`
	Text  string              `json:"text,omitempty"`
	Rows  []map[string]string `json:"rows,omitempty"`
}

func (p *printer) write(line string) {
	if _, err := fmt.Fprintln(p.o.Out, line); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *printer) emit(e event) {
	e.Story, e.Step = p.story, p.step
	line, err := json.Marshal(e)
	if err != nil && p.err == nil {
		p.err = err
	}
	p.write(string(line))
}

// heading begins a story.
func (p *printer) heading(n int, title text) {
	if p.o.JSON {
		p.emit(event{Text: p.in(title)})
		return
	}
	p.write(fmt.Sprintf("\n%d. %s  [--story %s]\n%s", n, p.in(title), p.story, strings.Repeat("─", 72)))
}

// say begins the next step and tells what happens in it.
func (p *printer) say(t text, args ...any) {
	p.step++
	line := fmt.Sprintf(p.in(t), args...)
	if p.o.JSON {
		p.emit(event{Text: line})
		return
	}
	p.write(fmt.Sprintf("\n(%d) %s", p.step, line))
}

// fact is one line of a table: what is shown, and its value as it was read.
type fact struct {
	name  text
	value string
}

// facts prints a table of two columns.
func (p *printer) facts(facts []fact) {
	if p.o.JSON {
		rows := make([]map[string]string, 0, len(facts))
		for _, f := range facts {
			rows = append(rows, map[string]string{"name": p.in(f.name), "value": f.value})
		}
		p.emit(event{Rows: rows})
		return
	}
	width := 0
	for _, f := range facts {
		width = max(width, runewidth.StringWidth(p.in(f.name)))
	}
	for _, f := range facts {
		p.write("    " + runewidth.FillRight(p.in(f.name), width) + "  " + f.value)
	}
}

// size shows a number of bytes in MiB.
func size(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
