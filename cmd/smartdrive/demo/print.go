package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
)

// bilingual is a text in English and Chinese.
type bilingual struct{ en, zh string }

// printer prints the narration of a story.
type printer struct {
	o     Options
	story string
	step  int
	err   error // the first error of writing
}

// translate returns the text in the chosen language.
func (p *printer) translate(t bilingual) string {
	if p.o.Chinese {
		return t.zh
	}
	return t.en
}

// event is a line of output with Options.JSON.
type event struct {
	Story string              `json:"story"`
	Step  int                 `json:"step"`
	Text  string              `json:"text,omitempty"`
	Rows  []map[string]string `json:"rows,omitempty"`
}

// write prints a line and records the first write error.
func (p *printer) write(line string) {
	if _, err := fmt.Fprintln(p.o.Out, line); err != nil && p.err == nil {
		p.err = err
	}
}

// emit prints an event as JSON.
func (p *printer) emit(e event) {
	e.Story, e.Step = p.story, p.step
	line, err := json.Marshal(e)
	if err != nil && p.err == nil {
		p.err = err
	}
	p.write(string(line))
}

// heading prints the title of a story.
func (p *printer) heading(n int, title bilingual) {
	if p.o.JSON {
		p.emit(event{Text: p.translate(title)})
		return
	}
	p.write(fmt.Sprintf("\n%d. %s  [--story %s]\n%s", n, p.translate(title), p.story, strings.Repeat("─", 72)))
}

// narrate starts the next step and prints its narration.
func (p *printer) narrate(t bilingual, args ...any) {
	p.step++
	line := fmt.Sprintf(p.translate(t), args...)
	if p.o.JSON {
		p.emit(event{Text: line})
		return
	}
	p.write(fmt.Sprintf("\n(%d) %s", p.step, line))
}

// tableRow is a row of a table: a name and a value read from the system.
type tableRow struct {
	name  bilingual
	value string
}

// printTable prints a table of names and values.
func (p *printer) printTable(facts []tableRow) {
	if p.o.JSON {
		rows := make([]map[string]string, 0, len(facts))
		for _, f := range facts {
			rows = append(rows, map[string]string{"name": p.translate(f.name), "value": f.value})
		}
		p.emit(event{Rows: rows})
		return
	}
	width := 0
	for _, f := range facts {
		width = max(width, runewidth.StringWidth(p.translate(f.name)))
	}
	for _, f := range facts {
		p.write("    " + runewidth.FillRight(p.translate(f.name), width) + "  " + f.value)
	}
}

// duration formats a time span: in days from two days on, else to a tenth of a second.
func (p *printer) duration(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return d.Round(100 * time.Millisecond).String()
	}
	return fmt.Sprintf(p.translate(bilingual{"%d days", "%d 天"}), int(d.Round(day)/day))
}

// size formats a number of bytes in MiB.
func size(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
