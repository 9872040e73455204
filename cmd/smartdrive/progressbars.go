package main

import (
	"fmt"
	"io"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"example.org/smartdrive/client"
)

// minBarBytes is the least size of a file with a progress bar of its own. Smaller files share one
// line.
const minBarBytes = 4 << 20

// barWidth is the maximum width of a bar in columns; on a narrow terminal the bar shrinks before
// the text does.
const barWidth = 30

// bars draws the progress of transfers on a terminal. Lines written to it appear above the bars.
type bars struct {
	p *mpb.Progress

	mu    sync.Mutex // must not be locked by drawing callbacks: the setters wait for the goroutine that draws
	files map[string]*fileBar
	small *mpb.Bar
	done  int64
	bytes int64
	line  atomic.Pointer[string] // text of the shared line: small files, or the whole tree
	tree  bool                   // whether line describes a tree
}

// fileBar is the bar of one file and its last event.
type fileBar struct {
	bar  *mpb.Bar
	last atomic.Pointer[client.Event]
}

// newBars returns bars that draw on w. The caller closes them.
func newBars(w io.Writer) *bars {
	return &bars{p: mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh()), files: map[string]*fileBar{}}
}

// Write prints p above the bars.
func (b *bars) Write(p []byte) (int, error) { return b.p.Write(p) }

// close removes the bars and waits for the last drawing.
func (b *bars) close() {
	b.mu.Lock()
	for _, f := range b.files {
		f.bar.Abort(true)
	}
	if b.small != nil {
		b.small.Abort(true)
	}
	b.mu.Unlock()
	b.p.Wait()
}

// event draws the event of one file; it is a client.Progress and may be called concurrently. Files
// below minBarBytes share one bar; a final event removes the file's bar.
func (b *bars) event(ev client.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ev.Total < minBarBytes {
		b.countSmall(ev)
		return
	}
	key := ev.Path + "\x00" + ev.Local
	f := b.files[key]
	if f == nil {
		if ev.State.Final() {
			return // skipped at once
		}
		f = &fileBar{}
		f.last.Store(&ev)
		f.bar = b.add(func() string { return eventText(f.last.Load()) }, ev.Total, path.Base(ev.Path))
		b.files[key] = f
	}
	f.last.Store(&ev)
	f.bar.SetCurrent(ev.Bytes)
	if ev.State.Final() {
		f.bar.Abort(true)
		delete(b.files, key)
	}
}

// countSmall adds a finished small file to the line that all small files share; other events are
// ignored. During a tree, treeProgress counts instead. The caller holds b.mu.
func (b *bars) countSmall(ev client.Event) {
	if !ev.State.Final() {
		return
	}
	if b.tree {
		return
	}
	b.done++
	b.bytes += ev.Total
	b.setLine(fmt.Sprintf("%d small files, %s", b.done, sizeText(b.bytes)))
}

// treeProgress shows the progress of a tree in the shared line.
func (b *bars) treeProgress(w client.TreeProgress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tree = true
	b.done = w.Files
	b.setLine(treeText(w))
}

// treeText returns the progress of a tree as text.
func treeText(w client.TreeProgress) string {
	of := "at least "
	if w.Counted {
		of = ""
	}
	text := fmt.Sprintf("%d of %s%d files, %s of %s%s", w.Files, of, w.TotalFiles, sizeText(w.Bytes), of, sizeText(w.TotalBytes))
	if w.FileRate > 0 {
		text += fmt.Sprintf("  %.0f files/s, %s/s", w.FileRate, sizeText(int64(w.ByteRate)))
	}
	if w.Left > 0 {
		text += fmt.Sprintf("  %s left", w.Left.Round(time.Second))
	}
	return text
}

// setLine shows text in the line that all small files share, and adds the line first if there is
// none. The caller holds b.mu.
func (b *bars) setLine(line string) {
	b.line.Store(&line)
	if b.small == nil {
		b.small = b.p.MustAdd(0, nil, mpb.BarPriority(1<<20), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			return *b.line.Load()
		})))
	}
	b.small.SetCurrent(b.done)
}

// add creates a bar that never completes by itself, because a file may not be finished when all its
// bytes are sent.
func (b *bars) add(text func() string, total int64, name string) *mpb.Bar {
	bar := b.p.New(0, mpb.BarStyle(), mpb.BarWidth(barWidth),
		mpb.PrependDecorators(decor.Name(shorten(escapeInvisible(name), 28), decor.WC{C: decor.DSyncWidthR | decor.DextraSpace})),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + text() })))
	bar.SetTotal(total, false)
	return bar
}

// eventText returns the text beside a file's bar.
func eventText(ev *client.Event) string {
	text := fmt.Sprintf("%s / %s", sizeText(ev.Bytes), sizeText(ev.Total))
	if ev.Rate > 0 && (ev.State == client.StateSending || ev.State == client.StateReceiving) {
		text += fmt.Sprintf("  %s/s  %s left", sizeText(int64(ev.Rate)), ev.ETA.Round(time.Second))
	}
	text += "  " + string(ev.State)
	if ev.Err != nil {
		text += ": " + shorten(escapeInvisible(ev.Err.Error()), 60)
	}
	return text
}

// shorten cuts s to at most that many characters, with "…" at the end.
func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
