package kill

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"example.org/smartdrive/test/history"
)

// batched is a file of a batch and its reply.
type batched struct {
	rec     history.Record
	content history.Content
	path    string
	line    []byte
	answer  *batchAnswer
}

type batchAnswer struct {
	N       *int                   `json:"n"`
	Status  int                    `json:"status"`
	Node    node                   `json:"node"`
	Problem *struct{ Code string } `json:"problem"`
}

// putBatch sends several files in one request. If the request is interrupted, it repeats the batch
// under the same key without the acknowledged files. Each file is stored once.
func (c *client) putBatch(ctx context.Context) {
	var files []*batched
	for _, k := range c.rand.Perm(8)[:2+c.rand.IntN(6)] {
		f := &batched{content: c.content(c.rand.Int64N(100_000)), path: fmt.Sprintf("%s/f%d", []string{"/" + c.name, "/" + c.name + "/deep"}[k/4], k%4)}
		f.rec = c.intent(history.Record{Do: history.Put, Path: f.path, Seed: f.content.Seed, Size: f.content.Size})
		line, err := json.Marshal(map[string]any{"n": len(files), "op": "put", "path": f.path, "size": f.content.Size, "parents": true})
		if err != nil {
			c.fail("%v", err)
		}
		f.line = append(line, '\n')
		files = append(files, f)
	}
	key := fmt.Sprintf("%s-%d-%d", c.name, c.op, rand.Uint32())
	var last reply
	for left := files; len(left) > 0 && ctx.Err() == nil && !c.l.t.Failed(); {
		var body bytes.Buffer
		for _, f := range left {
			body.Write(f.line)
			body.Write(f.content.Bytes(0, f.content.Size))
		}
		last = c.send(ctx, request{method: "POST", path: "/batch", body: &body, length: int64(body.Len()), header: map[string]string{
			"Content-Type": "application/vnd.smartdrive.batch", "Idempotency-Key": key,
		}})
		if last.status >= 400 && last.result() == refused {
			c.expect(files[0].rec, last, "rate", "in-progress")
		}
		c.readAnswers(files, last.body)
		was := left
		left = nil
		for _, f := range was {
			if f.answer == nil {
				left = append(left, f)
			}
		}
	}
	for _, f := range files {
		c.endBatched(ctx, f, last)
	}
}

// readAnswers parses the complete lines of a reply that may be cut off.
func (c *client) readAnswers(files []*batched, body []byte) {
	lines := bufio.NewReader(bytes.NewReader(body))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var a batchAnswer
		if err := json.Unmarshal(line, &a); err != nil {
			c.fail("a line of an answer to a batch: %v: %s", err, line)
			return
		}
		if a.N != nil {
			files[*a.N].answer = &a
		}
	}
}

func (c *client) endBatched(ctx context.Context, f *batched, last reply) {
	r := last // nobody has said what became of it
	if a := f.answer; a != nil {
		r = reply{status: a.Status}
		if a.Problem != nil {
			r.code = a.Problem.Code
		}
	} else if r.err == nil {
		r = reply{status: 503, code: "unavailable"}
	}
	var id string
	if f.answer != nil {
		id = f.answer.Node.ID
	}
	switch c.outcome(f.rec, r, id) {
	case done:
		if n := f.answer.Node; n.Digests["blake3"] != c.digests.of(f.content) || n.Size != f.content.Size {
			c.fail("a batch made of %d bytes %+v", f.content.Size, n)
		}
		c.appeared(f.path, id, f.content)
		if have := c.countVersions(ctx, id); have != len(c.files[f.path].contents) && ctx.Err() == nil {
			c.fail("%s has %d versions after a batch, want %d", f.path, have, len(c.files[f.path].contents))
		}
	case unsure:
		c.settle(ctx, f.path, f.content)
	case refused:
		c.expect(f.rec, r, "quota", "name-taken", "version-changed", "rate")
	}
}
