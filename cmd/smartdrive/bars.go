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

	"smartdrive/client"
)

// barFrom is the size in bytes from which a file has a bar of its own; smaller ones share a line
// that counts.
const barFrom = 4 << 20

// barWidth is the most columns that the bar itself takes; on a narrow terminal it gives way to the
// words.
const barWidth = 30

// bars draws what moves. It is a Writer whose lines appear above the bars.
type bars struct {
	p *mpb.Progress

	mu    sync.Mutex // never taken while a bar is drawn: a bar's own goroutine draws it, and setters wait for that
	files map[string]*fileBar
	small *mpb.Bar
	done  int64
	bytes int64
	line  atomic.Pointer[string] // what stands for the small files, or for all of a tree
	tree  bool                   // it stands for a tree
}

type fileBar struct {
	bar  *mpb.Bar
	last atomic.Pointer[client.Event]
}

func newBars(w io.Writer) *bars {
	return &bars{p: mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh()), files: map[string]*fileBar{}}
}

// Write implements io.Writer.
func (b *bars) Write(p []byte) (int, error) { return b.p.Write(p) }

// close removes what is left of the bars and waits for the last drawing.
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

// event is a client.Progress.
func (b *bars) event(ev client.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ev.Total < barFrom {
		b.count(ev)
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

// count shows small files together.
func (b *bars) count(ev client.Event) {
	if !ev.State.Final() {
		return
	}
	if b.tree {
		return
	}
	b.done++
	b.bytes += ev.Total
	b.say(fmt.Sprintf("%d small files, %s", b.done, sizeText(b.bytes)))
}

// whole shows how far a tree is.
func (b *bars) whole(w client.Whole) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tree = true
	b.done = w.Files
	b.say(wholeText(w))
}

// wholeText is the line of a tree.
func wholeText(w client.Whole) string {
	of := "at least "
	if w.Counted {
		of = ""
	}
	text := fmt.Sprintf("%d of %s%d files, %s of %s%s", w.Files, of, w.OfFiles, sizeText(w.Bytes), of, sizeText(w.OfBytes))
	if w.FileRate > 0 {
		text += fmt.Sprintf("  %.0f files/s, %s/s", w.FileRate, sizeText(int64(w.ByteRate)))
	}
	if w.Left > 0 {
		text += fmt.Sprintf("  %s left", w.Left.Round(time.Second))
	}
	return text
}

// say shows the line of small files, or of a tree.
func (b *bars) say(line string) {
	b.line.Store(&line)
	if b.small == nil {
		b.small = b.p.MustAdd(0, nil, mpb.BarPriority(1<<20), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			return *b.line.Load()
		})))
	}
	b.small.SetCurrent(b.done)
}

// add makes a bar that does not complete by itself: all bytes may be there long before the file is.
func (b *bars) add(text func() string, total int64, name string) *mpb.Bar {
	bar := b.p.New(0, mpb.BarStyle(), mpb.BarWidth(barWidth),
		mpb.PrependDecorators(decor.Name(shorten(visible(name), 28), decor.WC{C: decor.DSyncWidthR | decor.DextraSpace})),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + text() })))
	bar.SetTotal(total, false)
	return bar
}

// eventText is what stands beside a file's bar.
func eventText(ev *client.Event) string {
	text := fmt.Sprintf("%s / %s", sizeText(ev.Bytes), sizeText(ev.Total))
	if ev.Rate > 0 && (ev.State == client.StateSending || ev.State == client.StateReceiving) {
		text += fmt.Sprintf("  %s/s  %s left", sizeText(int64(ev.Rate)), ev.ETA.Round(time.Second))
	}
	text += "  " + string(ev.State)
	if ev.Err != nil {
		text += ": " + shorten(visible(ev.Err.Error()), 60)
	}
	return text
}

func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
