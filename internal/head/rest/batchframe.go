package rest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/batch"
)

// maxLine is the longest line of a batch, in bytes. It fits a path of 4 KiB whose every byte is
// escaped, and the other members.
const maxLine = 32 << 10

var _ batch.Source = (*frames)(nil)

// frames reads the items of a batch; docs/formats/batch.md describes the format.
//
//	batch = *item
//	item  = line [bytes]
//	line  = a JSON object in UTF-8 without a line feed, at most 32 KiB, and a line feed
//	bytes = those of a file, as many as "size" of its line says; only of a put
//
// A fault in a member that decides where the next line begins ends the batch, because nothing after
// it can be parsed. Any other fault fails only its item.
type frames struct {
	src  io.ReadCloser
	in   *bufio.Reader
	read func(*batchItem) (batch.Item, error)

	last int64      // number of the previous item; -1 before the first
	rest *itemBytes // unread bytes of the previous item
	sent int64      // bytes read from the body so far
	err  error      // set once nothing more can be read; io.EOF at a regular end
}

// newFrames returns a source of the items in src; read converts each header line. It does not close
// src.
func newFrames(src io.ReadCloser, read func(*batchItem) (batch.Item, error)) *frames {
	f := &frames{src: src, read: read, last: -1, rest: &itemBytes{}}
	f.in = bufio.NewReaderSize((*limitedBody)(f), 64<<10)
	return f
}

// limitedBody reads the request body and fails with drive.TooLarge after maxBatch bytes.
type limitedBody frames

// Read fails with drive.TooLarge once more than maxBatch bytes were read.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if b.sent += int64(n); b.sent > int64(maxBatch) {
		return 0, drive.Fail(drive.TooLarge, "field", "body", "limit", maxBatch, "sent", b.sent)
	}
	return n, err
}

// Err returns the error that ended the source; nil at the regular end and before it.
func (f *frames) Err() error {
	if f.err == nil || errors.Is(f.err, io.EOF) {
		return nil
	}
	return f.err
}

// Stop closes the body, so that a waiting Next or Read returns. It may be called from another
// goroutine.
func (f *frames) Stop() { _ = f.src.Close() }

// Next skips the unread bytes of the previous item and returns the next one. A fault of one item is
// in its Err. It fails with io.EOF after the last item; after any error it returns the same one
// again.
func (f *frames) Next() (batch.Item, error) {
	if f.err == nil {
		_, _ = io.Copy(io.Discard, f.rest) // a failure is kept in f.err
	}
	if f.err != nil {
		return batch.Item{}, f.err
	}
	item, err := f.next()
	if err != nil {
		f.err = err
		return batch.Item{}, err
	}
	return item, nil
}

// next reads an item. An error ends the batch; a fault of the item only is in Item.Err.
func (f *frames) next() (batch.Item, error) {
	line, err := f.line()
	if err != nil {
		return batch.Item{}, err
	}
	members, err := splitObject(line)
	if err != nil {
		return batch.Item{}, err
	}
	where, err := f.parseHeader(members)
	if err != nil {
		return batch.Item{}, err
	}
	f.last = where.n
	f.rest = &itemBytes{f: f, left: where.bytes}
	var in batchItem
	item := batch.Item{Op: where.op}
	if err = decodeMembers(members, &in); err == nil {
		item, err = f.read(&in)
	}
	item.N, item.Text, item.Err = int(where.n), line, err
	if where.op == batch.Put {
		item.Body = f.rest
	}
	return item, nil
}

// line reads a line and returns it without its line feed. It returns io.EOF at the end of the body.
// A line that is too long or not ended fails with drive.BadRequest.
func (f *frames) line() ([]byte, error) {
	var line []byte
	for {
		some, err := f.in.ReadSlice('\n')
		if len(line)+len(some) > maxLine {
			return nil, badFrame(drive.TooLong, "limit", maxLine, "sent", len(line)+len(some))
		}
		line = append(line, some...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, badFrame(drive.Malformed, "expected", "a line that ends with a line feed")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// badFrame returns drive.BadRequest, for the field "body", for a fault after which the rest of the
// batch cannot be parsed.
func badFrame(reason drive.Reason, args ...any) error {
	return drive.BadField("body", reason, args...)
}

// frameHeader holds the members of a line that delimit the item: its number, its operation and the
// count of bytes that follow.
type frameHeader struct {
	n, bytes int64
	op       batch.Op
}

// parseHeader reads the frameHeader from a line's members. Its error ends the batch.
func (f *frames) parseHeader(members map[string]json.RawMessage) (frameHeader, error) {
	p := frameHeader{n: f.last + 1}
	if raw, ok := members["n"]; ok && json.Unmarshal(raw, &p.n) != nil {
		return frameHeader{}, badFrame(drive.Malformed, "expected", "a number as n")
	}
	if p.n <= f.last || p.n >= batch.MaxItems {
		return frameHeader{}, drive.BadField("n", drive.OutOfRange, "min", f.last+1, "max", batch.MaxItems-1, "sent", p.n)
	}
	if raw, ok := members["op"]; !ok || json.Unmarshal(raw, &p.op) != nil || !slices.Contains(batch.Ops(), p.op) {
		return frameHeader{}, drive.BadField("op", drive.NotAllowed, "allowed", batch.Ops(), "sent", clip(string(members["op"])))
	}
	if p.op != batch.Put {
		return p, nil
	}
	raw, ok := members["size"]
	if !ok || json.Unmarshal(raw, &p.bytes) != nil || p.bytes < 0 {
		return frameHeader{}, drive.BadField("size", drive.Required)
	}
	if p.bytes > int64(maxBatch) {
		return frameHeader{}, drive.Fail(drive.TooLarge, "field", "size", "limit", maxBatch, "sent", p.bytes)
	}
	return p, nil
}

// itemBytes reads the file bytes of one item.
type itemBytes struct {
	f    *frames
	left int64
}

// Read implements io.Reader. It fails with drive.BadRequest, reason "cut", if the body ends early.
// Every failure is kept in frames.err and ends the batch.
func (b *itemBytes) Read(p []byte) (int, error) {
	switch {
	case b.left == 0:
		return 0, io.EOF
	case b.f.err != nil:
		return 0, b.f.err
	case int64(len(p)) > b.left:
		p = p[:b.left]
	}
	n, err := b.f.in.Read(p)
	b.left -= int64(n)
	if errors.Is(err, io.EOF) && b.left > 0 {
		err = drive.Wrap(io.ErrUnexpectedEOF, drive.BadRequest, "field", "body", "reason", "cut")
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil {
		b.f.err = err
	}
	return n, err
}
