package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"example.org/smartdrive/client"
)

// transfers prints the progress and results of file transfers: bars while they run, a line per
// finished file, and a summary. A transfers belongs to one command.
type transfers struct {
	c     *cli
	out   io.Writer
	bars  *bars
	items int
	// trees tells that a directory is among the transfers, so that a summary is printed.
	trees bool
	err   error // first error of writing a result
}

// newTransfers returns a transfers that draws bars if standard error is a terminal. The caller
// closes it.
func (c *cli) newTransfers() *transfers {
	t := &transfers{c: c, out: c.out}
	if isTerminal(c.err) {
		t.bars = newBars(c.err)
		if isTerminal(c.out) {
			t.out = t.bars // lines go above the bars
		}
	}
	return t
}

// close removes the bars, if any, so that lines printed later stand alone.
func (t *transfers) close() {
	if t.bars != nil {
		t.bars.close()
	}
}

// progress returns the client.Progress of a transfer: it draws bars on a terminal, else it reports
// only waiting.
func (t *transfers) progress() client.Progress {
	if t.bars == nil {
		return t.c.noticeWaiting
	}
	return t.bars.event
}

// treeProgress returns the receiver of a tree's progress; nil without bars.
func (t *transfers) treeProgress() func(client.TreeProgress) {
	if t.bars == nil {
		return nil
	}
	return t.bars.treeProgress
}

// noticeWaiting tells the user that a transfer is being retried, if there are no bars.
func (c *cli) noticeWaiting(ev client.Event) {
	if ev.State == client.StateWaiting {
		c.noticeRetry(ev.Err)
	}
}

// transferJSON is the JSON form of a transferred file.
type transferJSON struct {
	Local  string       `json:"local"`
	Path   string       `json:"path"`
	State  client.State `json:"state"`
	Size   int64        `json:"size"`
	Moved  int64        `json:"moved"`
	Digest string       `json:"blake3,omitempty"`
	Note   string       `json:"note,omitempty"`
	Error  *errorJSON   `json:"error,omitempty"`
}

// item counts and prints the result of one file. A write error is kept for the end of run.
func (t *transfers) item(i client.Item) {
	t.items++
	view := transferJSON{
		Local: i.Local, Path: i.Path, State: i.Result.State, Size: i.Result.Node.Size, Moved: i.Result.Moved,
		Digest: i.Result.Node.Digest(), Note: i.Result.Note,
	}
	if i.Err != nil {
		view.State, view.Error = client.StateFailed, newErrorJSON(i.Err, codeOf(context.Background(), i.Err))
	}
	if t.c.json {
		t.keepError(t.c.writeJSON(view))
		return
	}
	if i.Err != nil {
		to := t.c.err
		if t.bars != nil {
			to = t.bars
		}
		_ = printVisible(to, "smartdrive: %s: %v\n", i.Local, i.Err) // write errors are ignored, as by printError
		return
	}
	note := sizeText(view.Size)
	if view.Note != "" {
		note += ", " + view.Note
	}
	t.keepError(printVisible(t.out, "%-8s  %s  (%s)\n", view.State, i.Path, note))
}

// keepError records the first error of writing results, which becomes the command's error.
func (t *transfers) keepError(err error) {
	if t.err == nil {
		t.err = err
	}
}

// run transfers each argument, prints the summary, and returns the command's error.
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

// summary prints the summary unless a single file was transferred. It returns the first write
// error.
func (t *transfers) summary(s client.Summary) error {
	if t.err != nil {
		return t.err
	}
	if t.c.json {
		return t.c.writeJSON(map[string]client.Summary{"summary": s})
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
