package rest

import (
	"encoding/json"
	"net/http"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/usecase/batch"
	"smartdrive/internal/usecase/files"
)

// maxUnread is how many bytes of answers wait for a client that does not read, before the batch
// waits for it. Many clients read nothing before they have sent everything: as many items as they
// send at a time must have answers that fit.
const maxUnread = 256 << 10

// batchLine is the answer to an item, or, without n, the end of a batch.
type batchLine struct {
	N        *int            `json:"n,omitempty" doc:"the item; absent: the last line, which says how the batch ended"`
	Status   int             `json:"status" doc:"what the item would have been answered alone; of the last line, 200 when all items were read"`
	Node     *files.NodeView `json:"node,omitempty" doc:"the node as it is now; absent: it has gone since, or was trashed"`
	Rev      int64           `json:"rev,omitempty" doc:"of a download with return=minimal: the revision of the node, instead of the node"`
	Size     *int64          `json:"size,omitempty" doc:"of a download: how many bytes follow behind the line"`
	Replayed bool            `json:"replayed,omitempty" doc:"the item was done by an earlier attempt under the same key"`
	Problem  any             `json:"problem,omitempty" doc:"a problem document (RFC 9457): why the item was refused, or why the batch ended early"`
}

// lines writes answers as they come, beside whoever makes them.
type lines struct {
	c    *call
	lang problem.Lang

	mu      sync.Mutex
	changed *sync.Cond
	waiting []byte
	begun   bool // something was told, so that the status has gone out
	closed  bool
	dead    bool // the client is gone
	over    chan struct{}
	panic   any // of the writer; once over is closed
}

func newLines(c *call) *lines {
	l := &lines{c: c, lang: problem.Negotiate(c.r.Header.Get("Accept-Language")), over: make(chan struct{})}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// tell is what the batch calls with the answers of a group. A client that is gone is not a reason
// not to do what it has sent.
func (l *lines) tell(answers []batch.Answer) error {
	var raw []byte
	for i := range answers {
		line, err := json.Marshal(l.lineOf(&answers[i]))
		if err != nil {
			return err
		}
		raw = append(append(raw, line...), '\n')
	}
	l.add(raw)
	return nil
}

func (l *lines) lineOf(a *batch.Answer) batchLine {
	line := batchLine{N: &a.N, Status: http.StatusOK, Node: a.Node, Replayed: a.Replayed}
	switch {
	case a.Err != nil:
		line.Problem, line.Status = l.problem(a.Err)
	case a.Op == batch.Trash:
		line.Status = http.StatusNoContent
	case a.Created:
		line.Status = http.StatusCreated
	}
	return line
}

// problem is a problem document with its status.
func (l *lines) problem(err error) (any, int) {
	d := problem.From(err, l.lang, l.c.w.Header().Get("X-Request-Id"))
	return d, d.Status
}

// add hands bytes to the writer, and waits while too many are there.
func (l *lines) add(raw []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun {
		l.begun = true
		h := l.c.w.Header()
		h.Set("Content-Type", ndjson)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // a proxy that collects them would keep them from the client
		go l.run()
	}
	for len(l.waiting) > maxUnread && !l.dead {
		l.changed.Wait()
	}
	if !l.dead {
		l.waiting = append(l.waiting, raw...)
	}
	l.changed.Broadcast()
}

// run writes what there is.
func (l *lines) run() {
	defer close(l.over)
	defer func() {
		if l.panic = recover(); l.panic != nil { // close passes it on
			l.gone()
		}
	}()
	conn := http.NewResponseController(l.c.w)
	l.c.w.WriteHeader(http.StatusOK)
	for {
		raw, more := l.take()
		if !more {
			return
		}
		_, err := l.c.w.Write(raw) //nolint:gosec // JSON, and said to be
		if err == nil {
			err = conn.Flush()
		}
		if err != nil {
			l.gone()
			return
		}
	}
}

// gone notes that nobody reads any more.
func (l *lines) gone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead, l.waiting = true, nil
	l.changed.Broadcast()
}

func (l *lines) take() (raw []byte, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 && !l.closed {
		l.changed.Wait()
	}
	raw, l.waiting = l.waiting, nil
	l.changed.Broadcast()
	return raw, len(raw) > 0
}

// end writes the last line. A batch that has failed before its first answer has one as any request:
// end returns its error.
func (l *lines) end(err error) error {
	l.mu.Lock()
	begun := l.begun
	l.mu.Unlock()
	if err != nil && !begun {
		return err
	}
	line := batchLine{Status: http.StatusOK}
	if err != nil {
		line.Problem, line.Status = l.problem(err)
		problem.Note(l.c.w, err)
	}
	raw, jsonErr := json.Marshal(line)
	if jsonErr != nil {
		return drive.Wrap(jsonErr, drive.Internal)
	}
	l.add(append(raw, '\n'))
	return nil
}

// close waits until everything has gone out. A panic of the writer goes on in the goroutine of the
// request, where it is recovered and counted.
func (l *lines) close() {
	l.mu.Lock()
	l.closed = true
	begun := l.begun
	l.changed.Broadcast()
	l.mu.Unlock()
	if !begun {
		return
	}
	<-l.over
	if l.panic != nil {
		panic(l.panic)
	}
}
