package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"smartdrive/client"
)

// transfers shows how files are transferred: a line for each that ended, bars while they move, a
// summary.
type transfers struct {
	c     *cli
	out   io.Writer
	bars  *bars
	items int
	trees bool
	err   error // of the first line that could not be written
}

func (c *cli) newTransfers() *transfers {
	t := &transfers{c: c, out: c.out}
	if terminal(c.err) {
		t.bars = newBars(c.err)
		if terminal(c.out) {
			t.out = t.bars // lines go above the bars
		}
	}
	return t
}

func (t *transfers) close() {
	if t.bars != nil {
		t.bars.close()
	}
}

func (t *transfers) progress() client.Progress {
	if t.bars == nil {
		return t.c.sayWaiting
	}
	return t.bars.event
}

// whole is what shows how far a tree is; nil: nothing does.
func (t *transfers) whole() func(client.Whole) {
	if t.bars == nil {
		return nil
	}
	return t.bars.whole
}

// sayWaiting tells, where there are no bars, that a transfer has stopped for a while.
func (c *cli) sayWaiting(ev client.Event) {
	if ev.State == client.StateWaiting {
		c.waitingFor(ev.Err)
	}
}

// transferred is the JSON form of a file that was transferred.
type transferred struct {
	Local  string       `json:"local"`
	Path   string       `json:"path"`
	State  client.State `json:"state"`
	Size   int64        `json:"size"`
	Moved  int64        `json:"moved"`
	Digest string       `json:"blake3,omitempty"`
	Note   string       `json:"note,omitempty"`
	Error  *failure     `json:"error,omitempty"`
}

// item shows how one file ended.
func (t *transfers) item(i client.Item) {
	t.items++
	view := transferred{
		Local: i.Local, Path: i.Path, State: i.Result.State, Size: i.Result.Node.Size, Moved: i.Result.Moved,
		Digest: i.Result.Node.Digest(), Note: i.Result.Note,
	}
	if i.Err != nil {
		view.State, view.Error = client.StateFailed, newFailure(i.Err, codeOf(context.Background(), i.Err))
	}
	if t.c.json {
		t.wrote(t.c.object(view))
		return
	}
	if i.Err != nil {
		to := t.c.err
		if t.bars != nil {
			to = t.bars
		}
		_ = printVisible(to, "smartdrive: %s: %v\n", i.Local, i.Err) // as say
		return
	}
	note := sizeText(view.Size)
	if view.Note != "" {
		note += ", " + view.Note
	}
	t.wrote(printVisible(t.out, "%-8s  %s  (%s)\n", view.State, i.Path, note))
}

// wrote keeps the first error of writing results, which the command ends with.
func (t *transfers) wrote(err error) {
	if t.err == nil {
		t.err = err
	}
}

// run transfers each argument and ends with the summary and the error that the command ends with.
func (t *transfers) run(ctx context.Context, args []string, do func(arg string) (client.Summary, error)) error {
	var total client.Summary
	for _, arg := range args {
		sum, err := do(arg)
		total.Add(sum)
		t.trees = t.trees || sum.Folders+sum.Symlinks+sum.Special+sum.Unfinished > 0
		if err == nil {
			continue
		}
		if len(args) == 1 || ctx.Err() != nil || client.IsCode(err, client.CodeUnauthenticated) {
			return err
		}
		total.Failed++
		t.item(client.Item{Local: arg, Err: err})
	}
	if err := t.summary(total); err != nil {
		return err
	}
	return someFailed(total.Failed, total.Failed+total.Sent+total.Received+total.Instant+total.Skipped)
}

func (t *transfers) summary(s client.Summary) error {
	if t.err != nil {
		return t.err
	}
	if t.c.json {
		return t.c.object(map[string]client.Summary{"summary": s})
	}
	if t.items == 1 && !t.trees && s.Failed == 0 {
		return nil
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{s.Sent, "sent"},
		{s.Received, "received"},
		{s.Instant, "instant"},
		{s.Skipped, "skipped"},
		{s.Symlinks, "symbolic links left out"},
		{s.Special, "special files left out"},
		{s.Unfinished, "files of unfinished downloads left out"},
		{s.Failed, "failed"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing to do"}
	}
	_, err := fmt.Fprintf(t.out, "%s; %s moved\n", strings.Join(parts, ", "), sizeText(s.Bytes))
	return err
}
