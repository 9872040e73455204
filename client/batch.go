package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// BatchOp is the operation of a batch item.
type BatchOp string

// The operations of a batch.
const (
	BatchFolder BatchOp = "folder" // create a folder
	BatchPut    BatchOp = "put"    // store a small file
	BatchClaim  BatchOp = "claim"  // create a file from content that the account already has
	BatchMove   BatchOp = "move"   // rename or move a node, or set its time
	BatchTrash  BatchOp = "trash"  // move a node to the trash
)

// Limits of a batch. The server has the same limits.
const (
	MaxBatchItems = 1000
	MaxBatchBytes = 64 << 20 // JSON lines and contents together
	MaxBatchFile  = 1 << 20  // of one file
)

// BatchItem is one operation of a batch. Zero fields are not sent.
type BatchItem struct {
	Op          BatchOp    `json:"op"`
	Path        string     `json:"path,omitempty"` // absolute; a move or trash may name ID instead
	Size        *int64     `json:"size,omitempty"` // for a claim; a put uses the length of Content
	Parents     bool       `json:"parents,omitempty"`
	Conflict    Conflict   `json:"conflict,omitempty"`
	Digests     Digests    `json:"digests,omitempty"`
	Mtime       *time.Time `json:"mtime,omitempty"`
	MIME        string     `json:"mime,omitempty"`
	IfMatch     string     `json:"if_match,omitempty"`
	IfNoneMatch string     `json:"if_none_match,omitempty"`
	ID          string     `json:"id,omitempty"`
	To          string     `json:"to,omitempty"` // for a move: the new path
	Parent      string     `json:"parent,omitempty"`
	Name        string     `json:"name,omitempty"`
	Rev         int64      `json:"rev,omitempty"`

	Content []byte `json:"-"` // for a put
}

// BatchResult is the result of a batch item: a node, or an error; neither if the item was trashed
// or is unanswered.
type BatchResult struct {
	Node *Node // nil: the item was trashed or failed, or the node has been deleted since
	// Created tells that the item made a new node, as opposed to a new version or no change.
	Created bool
	Err     error // *Problem: the server refused the item; any other error: the item was not sent
}

// Batch sends many small operations in one request. The server executes them in order; each
// succeeds or fails on its own. The answer to an item has the item's index. If the connection
// breaks, Batch resends the unanswered items; nothing is executed twice.
//
// An error means that some items have no answer (a zero BatchResult); whether the server executed
// them is unknown.
func (c *Client) Batch(ctx context.Context, items []BatchItem) ([]BatchResult, error) {
	return c.batch(ctx, items, nil)
}

// Batch is Client.Batch with the uploader's retry limit. waiting, if not nil, is called with the
// error before each retry.
func (u *Uploader) Batch(ctx context.Context, items []BatchItem, waiting func(error)) ([]BatchResult, error) {
	p := newRetryBudget(u.opt.RetryFor)
	if waiting != nil {
		p.notify = func(err error, _ time.Duration) { waiting(err) }
	}
	return u.c.batch(ctx, items, p)
}

// batch sends items in one request and resends the unanswered ones within the retry budget p; nil
// uses the client's RetryFor. On an error it returns the answers received so far; an item without
// Node and Err is unanswered.
func (c *Client) batch(ctx context.Context, items []BatchItem, p *retryBudget) ([]BatchResult, error) {
	b := &batchRun{c: c, items: items, key: rand.Text(), answers: make([]BatchResult, len(items)), done: make([]bool, len(items)), remaining: len(items)}
	if p == nil {
		p = newRetryBudget(c.opt.RetryFor)
		p.notify = c.opt.OnRetry
	}
	if err := b.encodeItems(); err != nil {
		return nil, err
	}
	for failures := 0; b.remaining > 0; {
		was := b.remaining
		err := b.attempt(ctx, failures > 0)
		if b.remaining < was {
			p.reset()
			failures = 0
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return b.answers, context.Cause(ctx)
		}
		failures++
		if err := c.backoff(ctx, p, classifyError(err), failures, err); err != nil {
			return b.answers, err
		}
	}
	return b.answers, nil
}

// batchRun is the state of one Batch call over its attempts.
type batchRun struct {
	c     *Client
	items []BatchItem
	lines [][]byte // JSON lines, identical in every attempt because the server compares them; nil: not sent
	// key is the idempotency key of all attempts.
	key       string
	answers   []BatchResult
	done      []bool
	remaining int
}

// encodeItems encodes the items as JSON lines. An item with invalid UTF-8 fails on its own; too
// many items fail the batch.
func (b *batchRun) encodeItems() error {
	if len(b.items) > MaxBatchItems {
		return fmt.Errorf("batch: %d items: at most %d", len(b.items), MaxBatchItems)
	}
	b.lines = make([][]byte, len(b.items))
	for i, item := range b.items {
		if item.Op == BatchPut {
			size := int64(len(item.Content))
			item.Size = &size
		}
		line, err := encode(struct {
			N int `json:"n"`
			BatchItem
		}{i, item})
		if errors.Is(err, errNotUTF8) { // only this item fails
			b.answers[i].Err, b.done[i] = err, true
			b.remaining--
			continue
		}
		if err != nil {
			return fmt.Errorf("batch: item %d: %w", i, err)
		}
		b.lines[i] = append(line, '\n')
	}
	return nil
}

// body returns the lines and contents of the unanswered items, and their size in bytes.
func (b *batchRun) body() (io.Reader, int64) {
	var parts []io.Reader
	var size int64
	for i, line := range b.lines {
		if b.done[i] {
			continue
		}
		parts = append(parts, bytes.NewReader(line), bytes.NewReader(b.items[i].Content))
		size += int64(len(line) + len(b.items[i].Content))
	}
	return io.MultiReader(parts...), size
}

// attempt sends the items that have no answer yet in one request, and reads answers meanwhile.
// again marks a retry. It returns nil once the server has ended the batch with all items answered.
// After an error the answers read so far are kept, and the caller may try again. It fails at once
// if the items exceed MaxBatchBytes.
func (b *batchRun) attempt(ctx context.Context, again bool) error {
	from, size := b.body()
	if size > MaxBatchBytes {
		return fmt.Errorf("batch: %d bytes: at most %d", size, MaxBatchBytes)
	}
	k := &request{method: http.MethodPost, path: "/batch"}
	k.body = func() (*requestBody, error) { return &requestBody{size: size, src: from, duplex: true}, nil }
	k.setHeader("Content-Type", "application/vnd.smartdrive.batch")
	k.setHeader("Idempotency-Key", b.key)
	resp, err := b.c.roundTrip(ctx, k, again)
	if err != nil {
		return err
	}
	defer closeQuietly(resp.Body)
	return b.readAnswers(ctx, resp.Body)
}

// readAnswers reads answer lines into b up to the final line. A connection that ends before that
// gives io.ErrUnexpectedEOF, wrapped for a retry.
func (b *batchRun) readAnswers(ctx context.Context, answer io.Reader) error {
	lines := bufio.NewReaderSize(answer, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return wrapConnError(ctx, err)
		}
		last, err := b.handleLine(line)
		if last || err != nil {
			return err
		}
	}
}

// batchLine is a line of the reply to a batch: the answer to item N, or the end of the batch if N
// is nil.
type batchLine struct {
	N       *int            `json:"n"`
	Status  int             `json:"status"`
	Node    *Node           `json:"node"`
	Problem json.RawMessage `json:"problem"`
}

// handleLine records the answer in a line; last reports that the line ends the batch. It fails for
// a line that is no answer, and at the end with the server's Problem or if items are unanswered.
func (b *batchRun) handleLine(line []byte) (last bool, err error) {
	var l batchLine
	if err := json.Unmarshal(line, &l); err != nil {
		return false, fmt.Errorf("read the answer to a batch: %w", err)
	}
	var problem error
	if l.Problem != nil {
		var p Problem
		if err := json.Unmarshal(l.Problem, &p); err != nil {
			return false, fmt.Errorf("read the answer to a batch: %w", err)
		}
		p.Status = l.Status
		problem = &p
	}
	switch {
	case l.N == nil && problem == nil && b.remaining > 0:
		return true, fmt.Errorf("the server has ended a batch with %d items unanswered", b.remaining)
	case l.N == nil:
		return true, problem
	case *l.N < 0 || *l.N >= len(b.items):
		return false, fmt.Errorf("the server has answered item %d of a batch of %d", *l.N, len(b.items))
	}
	if !b.done[*l.N] {
		b.done[*l.N] = true
		b.remaining--
	}
	b.answers[*l.N] = BatchResult{Node: l.Node, Created: l.Status == http.StatusCreated, Err: problem}
	return false, nil
}

// IsBatchUnsupported reports whether err means that the server, or a proxy in front of it, does not
// support batches or not of that size. The caller then sends the items one by one.
func IsBatchUnsupported(err error) bool {
	if proxy, ok := errors.AsType[*ProxyError](err); ok {
		switch proxy.Status {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
			return true
		}
	}
	return IsCode(err, CodeNotFound, CodeMethod, CodeMediaType)
}
