package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/files"
)

const (
	listBatch      = 100             // files looked up per query
	prereadMax     = 64 * drive.KiB  // up to this size a file is read before its line is sent, so that a read error fails the file and not the stream
	readAheadMax   = 256 * drive.KiB // up to this size a file from a remote store is read ahead
	readAheadFiles = 8               // files that one request opens ahead
)

// contentRoutes returns the declarations of the content routes. It registers nothing.
func (b batches) contentRoutes() []route {
	out := outcome{status: 200, bytes: true, mediaType: batchType, description: "a line for each file, in order, and its bytes behind it; and a line at the end"}
	return []route{{
		id: "downloadBatch", method: "POST", path: batchPath + "/contents", access: read, action: withJSON(b.contents), header: []string{"Prefer"},
		summary: "Download up to 1,000 files in one stream, whose format docs/formats/batch.md describes: for each a line with its node, and its bytes. With `Prefer: return=minimal` (RFC 7240) the line has the revision of the node instead. " +
			"What cannot be read has a problem in its place. It goes on by asking for the files that have not come.",
		outcomes: []outcome{out}, errors: []drive.Kind{drive.NotFound, drive.TooLarge},
	}}
}

// contentsBody is the body of a request to download many files as one stream. Nodes are the ids of
// the files, in the order of the stream; for more than batch.MaxItems contents returns TooLarge,
// and for text that is not an id an error.
type contentsBody struct {
	Nodes []string `json:"nodes" doc:"ids of up to 1,000 files"`
}

// contents serves POST /batch/contents. Beyond the errors common to all routes it fails with
// drive.NotFound or drive.TooLarge.
func (b batches) contents(ctx context.Context, c *call, in *contentsBody) (reply, error) {
	if len(in.Nodes) > batch.MaxItems {
		return reply{}, drive.Fail(drive.TooLarge, "reason", "picked", "limit", batch.MaxItems, "sent", len(in.Nodes))
	}
	ids := make([]drive.NodeID, len(in.Nodes))
	for i, text := range in.Nodes {
		id, err := drive.ParseID[drive.NodeID](text)
		if err != nil {
			return reply{}, err
		}
		ids[i] = id
	}
	h := c.w.Header()
	h.Set("Content-Type", batchType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no")
	s := &contentsStream{b: b, c: c, to: bufio.NewWriterSize(c.w, 64<<10), lang: problem.Negotiate(c.r.Header.Get("Accept-Language"))}
	if s.minimal = slices.Contains(server.Preferences(c.r.Header), server.Minimal); s.minimal {
		h.Set("Preference-Applied", server.Minimal)
	}
	err := s.send(ctx, ids)
	if err == nil {
		return reply{}, nil
	}
	if !s.begun {
		h.Del("Content-Type")
		return reply{}, err
	}
	problem.Note(c.w, err)
	panic(http.ErrAbortHandler) // a clean end would look complete to the client
}

// contentsStream sends the contents of many files to one client as one stream.
type contentsStream struct {
	b     batches
	c     *call
	to    *bufio.Writer
	lang  problem.Lang
	begun bool
	n     int    // number of the next file
	small []byte // buffer for a small file, reused by the next

	minimal bool // lines carry the revision of a node instead of the node
}

// send sends all files and the last line. If it fails while s.begun is false, nothing was sent and
// the caller answers with the error; later, the stream is broken.
func (s *contentsStream) send(ctx context.Context, ids []drive.NodeID) error {
	for some := range slices.Chunk(ids, listBatch) {
		listed, err := s.b.files.Contents.List(ctx, s.c.who, some)
		if err == nil && !s.minimal {
			err = s.b.files.Contents.Show(ctx, s.c.who, listed)
		}
		if err != nil {
			return err
		}
		s.begun = true
		if err := s.sendListed(ctx, listed); err != nil {
			return err
		}
	}
	s.begun = true
	if err := s.line(batchLine{Status: http.StatusOK}); err != nil {
		return err
	}
	return s.to.Flush()
}

// sendListed sends files that were looked up. It reads ahead if the store is remote. It fails if
// the client is disconnected; a file that cannot be read gets a problem in its place.
func (s *contentsStream) sendListed(ctx context.Context, listed []files.Listed) error {
	if !s.b.files.Contents.HighLatency() {
		for _, l := range listed {
			if err := s.sendFile(l, s.b.open(ctx, l)); err != nil {
				return err
			}
		}
		return nil
	}
	ahead := s.b.readAhead(ctx, listed)
	defer func() {
		for _, rest := range ahead {
			(<-rest).close()
		}
	}()
	for _, l := range listed {
		next := ahead[0]
		ahead = ahead[1:]
		if err := s.sendFile(l, <-next); err != nil {
			return err
		}
	}
	return nil
}

// line writes a line of JSON into the buffer of the response. It fails if the client is
// disconnected.
func (s *contentsStream) line(l batchLine) error {
	raw, err := json.Marshal(l)
	if err == nil {
		_, err = s.to.Write(append(raw, '\n'))
	}
	return err
}

// sendFile sends the line of one file and its bytes. A file that cannot be opened or read gets a
// problem instead. An error means that the stream is broken.
func (s *contentsStream) sendFile(l files.Listed, got opened) (err error) {
	defer got.close()
	n := s.n
	s.n++
	line := batchLine{N: &n, Status: http.StatusOK}
	if s.minimal {
		line.Rev = l.Rev
	} else {
		line.Node = nodeOrNil(&l.Node)
	}
	refused := errors.Join(l.Err, got.err)
	if refused == nil && got.bytes == nil && l.Size <= prereadMax {
		got.bytes, refused = s.read(got.object, int(l.Size))
	}
	if refused != nil {
		d := problem.From(refused, s.lang, s.c.w.Header().Get("X-Request-Id"))
		return s.line(batchLine{N: &n, Status: d.Status, Problem: d})
	}
	size := int64(l.Size)
	line.Size = &size
	if err := s.line(line); err != nil {
		return err
	}
	if got.bytes != nil {
		_, err = s.to.Write(got.bytes)
		return err
	}
	sent, err := io.Copy(s.to, io.NewSectionReader(got.object, 0, size))
	if err == nil && sent != size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// read reads n bytes of a small file into a buffer that the next call overwrites.
func (s *contentsStream) read(o blob.Object, n int) ([]byte, error) {
	s.small = slices.Grow(s.small[:0], n)[:n]
	_, err := io.ReadFull(io.NewSectionReader(o, 0, int64(n)), s.small)
	return s.small, err
}

// opened is an open file, its bytes, or the error that kept it from being opened.
type opened struct {
	object  blob.Object
	bytes   []byte // set instead of object if the file was read ahead
	err     error
	release func() // releases the read-ahead memory of bytes; may be nil
}

// close closes the file, if it was opened, and releases the memory acquired for it. Call it once.
func (o opened) close() {
	if o.object != nil {
		_ = o.object.Close() // it was only read
	}
	if o.release != nil {
		o.release()
	}
}

// readAhead opens files in order, up to readAheadFiles before their turn, and reads small ones
// while there is memory. The caller must receive from every channel and close each result.
func (b batches) readAhead(ctx context.Context, all []files.Listed) []chan opened {
	turns := make([]chan opened, len(all))
	slots := make(chan struct{}, readAheadFiles)
	for i := range turns {
		turns[i] = make(chan opened) // unbuffered, so that a goroutine keeps its slot until its result is received
	}
	go func() {
		for i, l := range all {
			slots <- struct{}{}
			go func() {
				turns[i] <- b.open(ctx, l)
				<-slots
			}()
		}
	}()
	return turns
}

// open opens a file. A panic becomes the file's error, since open may run outside of the request's
// goroutine.
func (b batches) open(ctx context.Context, l files.Listed) (o opened) {
	defer func() {
		if v := recover(); v != nil {
			o.close()
			o = opened{err: fmt.Errorf("panic while a file was opened: %v\n%s", v, debug.Stack())}
		}
	}()
	if l.Err != nil {
		return opened{}
	}
	if o.object, o.err = b.files.Contents.OpenListed(ctx, l); o.err != nil || !b.files.Contents.HighLatency() || l.Size > readAheadMax {
		return o
	}
	if !b.readAheadBudget.TryAcquire(int64(l.Size)) {
		return o
	}
	bytes := make([]byte, l.Size)
	if _, err := o.object.ReadAt(bytes, 0); err != nil && !errors.Is(err, io.EOF) {
		b.readAheadBudget.Release(int64(l.Size))
		return opened{object: o.object, err: err}
	}
	o.close()
	return opened{bytes: bytes, release: func() { b.readAheadBudget.Release(int64(l.Size)) }}
}
