package rest

import (
	"encoding/json"
	"net/http"
	"sync"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/usecase/batch"
)

// maxUnread is how many bytes of answers are buffered for a client that does not read; then the
// batch waits for the client. Many clients send everything before they read, so the answers to one
// send must fit.
const maxUnread = 256 << 10

// batchLine is the answer to an item. Without N, it is the last line of a batch.
type batchLine struct {
	N        *int      `json:"n,omitempty" doc:"number of the item; absent in the last line, which reports how the batch ended"`
	Status   int       `json:"status" doc:"status of the item as in a single request; in the last line 200 if all items were read"`
	Node     *api.Node `json:"node,omitempty" doc:"the current node; absent: deleted or trashed since"`
	Rev      int64     `json:"rev,omitempty" doc:"in a download with return=minimal: the revision of the node instead of the node"`
	Size     *int64    `json:"size,omitempty" doc:"in a download: number of bytes that follow the line"`
	Replayed bool      `json:"replayed,omitempty" doc:"true: an earlier attempt with the same key completed the item"`
	Problem  any       `json:"problem,omitempty" doc:"problem document (RFC 9457): why the item was refused, or why the batch ended early"`
}

// answerWriter sends the answers of a batch from a goroutine of its own, so that a slow client does
// not delay the batch until maxUnread bytes wait.
type answerWriter struct {
	c    *call
	lang problem.Lang

	mu           sync.Mutex
	changed      *sync.Cond
	waiting      []byte
	begun        bool // the writer runs and the status is sent
	closed       bool
	disconnected bool // the client is disconnected
	// done is closed when the writer has ended.
	done  chan struct{}
	panic any // panic of the writer; valid once done is closed
}

// newAnswerWriter returns a writer of the answer lines of c. It sends nothing yet.
func newAnswerWriter(c *call) *answerWriter {
	w := &answerWriter{c: c, lang: problem.Negotiate(c.r.Header.Get("Accept-Language")), done: make(chan struct{})}
	w.changed = sync.NewCond(&w.mu)
	return w
}

// addAnswers queues the answers to a group of items. It does not report a disconnected client: what
// the client has sent is executed anyway. It always returns nil, but waits while maxUnread bytes
// are unsent.
func (w *answerWriter) addAnswers(answers []batch.Answer) error {
	var raw []byte
	for i := range answers {
		line, err := json.Marshal(w.lineOf(&answers[i]))
		if err != nil {
			return err
		}
		raw = append(append(raw, line...), '\n')
	}
	w.add(raw)
	return nil
}

// lineOf converts the answer to an item into its line: 200, 201 or 204, or the problem and its
// status.
func (w *answerWriter) lineOf(a *batch.Answer) batchLine {
	line := batchLine{N: &a.N, Status: http.StatusOK, Node: nodeOrNil(a.Node), Replayed: a.Replayed}
	switch {
	case a.Err != nil:
		line.Problem, line.Status = w.problem(a.Err)
	case a.Op == batch.Trash:
		line.Status = http.StatusNoContent
	case a.Created:
		line.Status = http.StatusCreated
	}
	return line
}

// problem returns the problem document for err, in the client's language, and its HTTP status.
func (w *answerWriter) problem(err error) (any, int) {
	d := problem.From(err, w.lang, w.c.w.Header().Get("X-Request-Id"))
	return d, d.Status
}

// add queues bytes for the writer and waits while more than maxUnread bytes are queued. It drops
// them if the client is disconnected.
func (w *answerWriter) add(raw []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		w.begun = true
		h := w.c.w.Header()
		h.Set("Content-Type", ndjson)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // otherwise a proxy buffers the answers
		go w.run()
	}
	for len(w.waiting) > maxUnread && !w.disconnected {
		w.changed.Wait()
	}
	if !w.disconnected {
		w.waiting = append(w.waiting, raw...)
	}
	w.changed.Broadcast()
}

// run writes queued bytes until close is called or the client disconnects.
func (w *answerWriter) run() {
	defer close(w.done)
	defer func() {
		if w.panic = recover(); w.panic != nil { // close raises the panic again
			w.disconnect()
		}
	}()
	conn := http.NewResponseController(w.c.w)
	w.c.w.WriteHeader(http.StatusOK)
	for {
		raw, more := w.next()
		if !more {
			return
		}
		_, err := w.c.w.Write(raw) //nolint:gosec // JSON, and said to be
		if err == nil {
			err = conn.Flush()
		}
		if err != nil {
			w.disconnect()
			return
		}
	}
}

// disconnect drops the queue and lets add return, since the client does not read any more.
func (w *answerWriter) disconnect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disconnected, w.waiting = true, nil
	w.changed.Broadcast()
}

// next waits for queued bytes and returns them. more is false after close.
func (w *answerWriter) next() (raw []byte, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) == 0 && !w.closed {
		w.changed.Wait()
	}
	raw, w.waiting = w.waiting, nil
	w.changed.Broadcast()
	return raw, len(raw) > 0
}

// end queues the last line. If the batch fails before the first answer, end returns err instead, so
// that the client gets an ordinary error response.
func (w *answerWriter) end(err error) error {
	w.mu.Lock()
	begun := w.begun
	w.mu.Unlock()
	if err != nil && !begun {
		return err
	}
	line := batchLine{Status: http.StatusOK}
	if err != nil {
		line.Problem, line.Status = w.problem(err)
		problem.Note(w.c.w, err)
	}
	raw, jsonErr := json.Marshal(line)
	if jsonErr != nil {
		return drive.Wrap(jsonErr, drive.Internal)
	}
	w.add(append(raw, '\n'))
	return nil
}

// close waits until all queued bytes are sent. It raises a panic of the writer again in the
// request's goroutine, where the panic is recovered and counted.
func (w *answerWriter) close() {
	w.mu.Lock()
	w.closed = true
	begun := w.begun
	w.changed.Broadcast()
	w.mu.Unlock()
	if !begun {
		return
	}
	<-w.done
	if w.panic != nil {
		panic(w.panic)
	}
}
