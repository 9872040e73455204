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

// BatchOp is what an item of a batch asks for.
type BatchOp string

// The ops.
const (
	BatchFolder BatchOp = "folder" // make a folder
	BatchPut    BatchOp = "put"    // store a small file
	BatchClaim  BatchOp = "claim"  // make a file of content that the account has
	BatchMove   BatchOp = "move"   // rename, move or touch a node
	BatchTrash  BatchOp = "trash"  // put a node into the trash
)

// Limits of a batch, as the server has them.
const (
	MaxBatchItems = 1000
	MaxBatchBytes = 64 << 20 // lines and contents together
	MaxBatchFile  = 1 << 20  // of one file
)

// BatchItem is one thing that a batch asks for. What is zero is not said.
type BatchItem struct {
	Op          BatchOp    `json:"op"`
	Path        string     `json:"path,omitempty"` // absolute; of a move or a trash: or ID
	Size        *int64     `json:"size,omitempty"` // of a claim; that of a put follows from Content
	Parents     bool       `json:"parents,omitempty"`
	Conflict    Conflict   `json:"conflict,omitempty"`
	Digests     Digests    `json:"digests,omitempty"`
	Mtime       *time.Time `json:"mtime,omitempty"`
	MIME        string     `json:"mime,omitempty"`
	IfMatch     string     `json:"if_match,omitempty"`
	IfNoneMatch string     `json:"if_none_match,omitempty"`
	ID          string     `json:"id,omitempty"`
	To          string     `json:"to,omitempty"` // of a move: the path that it gets
	Parent      string     `json:"parent,omitempty"`
	Name        string     `json:"name,omitempty"`
	Rev         int64      `json:"rev,omitempty"`

	Content []byte `json:"-"` // of a put
}

// BatchAnswer is what became of an item.
type BatchAnswer struct {
	Node    *Node // nil: it was trashed, or has gone since
	Created bool
	Err     error // *Problem: what the server would have answered to the item alone; else it was not sent
}

// Batch has many small things done in one request, one after the other. Each succeeds or fails
// alone: its answer is at its index. A batch that breaks off is sent again without what was
// answered, and nothing is done twice. The error is why not all items have an answer; those that
// have one are done, and of each other one it is not known.
func (c *Client) Batch(ctx context.Context, items []BatchItem) ([]BatchAnswer, error) {
	return c.batch(ctx, items, nil)
}

// Batch is Client.Batch, and gives up when the uploader does. waiting hears why it waits before
// another attempt; nil: nobody does.
func (u *Uploader) Batch(ctx context.Context, items []BatchItem, waiting func(error)) ([]BatchAnswer, error) {
	p := newPatience(u.opt.GiveUp)
	if waiting != nil {
		p.notify = func(err error, _ time.Duration) { waiting(err) }
	}
	return u.c.batch(ctx, items, p)
}

func (c *Client) batch(ctx context.Context, items []BatchItem, p *patience) ([]BatchAnswer, error) {
	b := &batching{c: c, items: items, key: rand.Text(), answers: make([]BatchAnswer, len(items)), done: make([]bool, len(items)), left: len(items)}
	if p == nil {
		p = newPatience(c.opt.GiveUp)
		p.notify = c.opt.Waiting
	}
	if err := b.compose(); err != nil {
		return nil, err
	}
	for failures := 0; b.left > 0; {
		was := b.left
		err := b.attempt(ctx, failures > 0)
		if b.left < was {
			p.touch()
			failures = 0
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return b.answers, context.Cause(ctx)
		}
		failures++
		if err := c.pause(ctx, p, judge(err), failures, err); err != nil {
			return b.answers, err
		}
	}
	return b.answers, nil
}

// batching is a batch on its way.
type batching struct {
	c       *Client
	items   []BatchItem
	lines   [][]byte // the same in every attempt: the server compares them
	key     string
	answers []BatchAnswer
	done    []bool
	left    int
}

func (b *batching) compose() error {
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
		if errors.Is(err, errNotUTF8) { // it fails alone
			b.answers[i].Err, b.done[i] = err, true
			b.left--
			continue
		}
		if err != nil {
			return fmt.Errorf("batch: item %d: %w", i, err)
		}
		b.lines[i] = append(line, '\n')
	}
	return nil
}

// body is what of the batch has no answer yet.
func (b *batching) body() (io.Reader, int64) {
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

// attempt sends what is left and reads answers while it does. nil: at least one more item has one.
func (b *batching) attempt(ctx context.Context, again bool) error {
	from, size := b.body()
	if size > MaxBatchBytes {
		return fmt.Errorf("batch: %d bytes: at most %d", size, MaxBatchBytes)
	}
	k := &call{method: http.MethodPost, path: "/batch"}
	k.body = func() (*upBody, error) { return &upBody{size: size, from: from, beside: true}, nil }
	k.setHeader("Content-Type", "application/vnd.smartdrive.batch")
	k.setHeader("Idempotency-Key", b.key)
	resp, err := b.c.roundTrip(ctx, k, again)
	if err != nil {
		return err
	}
	defer letGo(resp.Body)
	return b.read(ctx, resp.Body)
}

// read takes the lines of an answer.
func (b *batching) read(ctx context.Context, answer io.Reader) error {
	lines := bufio.NewReaderSize(answer, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return asCut(ctx, err)
		}
		over, err := b.take(line)
		if over || err != nil {
			return err
		}
	}
}

// batchLine is a line of an answer.
type batchLine struct {
	N       *int            `json:"n"`
	Status  int             `json:"status"`
	Node    *Node           `json:"node"`
	Problem json.RawMessage `json:"problem"`
}

// take notes what a line says; over: it was the last one.
func (b *batching) take(line []byte) (over bool, err error) {
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
	case l.N == nil && problem == nil && b.left > 0:
		return true, fmt.Errorf("the server has ended a batch with %d items unanswered", b.left)
	case l.N == nil:
		return true, problem
	case *l.N < 0 || *l.N >= len(b.items):
		return false, fmt.Errorf("the server has answered item %d of a batch of %d", *l.N, len(b.items))
	}
	if !b.done[*l.N] {
		b.done[*l.N] = true
		b.left--
	}
	b.answers[*l.N] = BatchAnswer{Node: l.Node, Created: l.Status == http.StatusCreated, Err: problem}
	return false, nil
}

// LacksBatch reports whether an answer means that the server, or what is before it, takes no
// batches, or none of that size.
func LacksBatch(err error) bool {
	if proxy, ok := errors.AsType[*ProxyError](err); ok {
		switch proxy.Status {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
			return true
		}
	}
	return IsCode(err, CodeNotFound, CodeMethod, CodeMediaType)
}
