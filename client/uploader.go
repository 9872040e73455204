package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Uploader sends files so that no interruption of itself, of the network or of the server costs
// more than the parts that were on their way. It is safe for concurrent use.
type Uploader struct {
	c   *Client
	opt UploadOptions

	hashFirst, claimWorth int64 // the constants; tests make them small
}

// UploadOptions tune an Uploader. The zero value is the default.
type UploadOptions struct {
	Parallel int           // parts of one file on their way at once; default 4
	PartSize int64         // bytes, a power of two from 1 MiB; default 8 MiB, larger where 10,000 parts would not do
	GiveUp   time.Duration // how long to go on while nothing succeeds; default 15 minutes
	Files    int           // connections that a tree may use at once; default 16
	Single   bool          // small files of a tree go one by one, and not many in one request
}

// Sizes that decide how a file is sent, in bytes.
const (
	defaultPart = 8 << 20
	leastPart   = 1 << 20
	mostParts   = 10_000
	hashFirst   = 64 << 20 // up to this hashing takes less than a round of parts: the claim comes with begin
	claimWorth  = 16 << 20 // less than this unsent is not worth a claim in the middle
)

// Uploader returns an Uploader of c.
func (c *Client) Uploader(o UploadOptions) (*Uploader, error) {
	o.Parallel = orElse(o.Parallel, 4)
	o.PartSize = orElse(o.PartSize, defaultPart)
	o.GiveUp = orElse(o.GiveUp, 15*time.Minute)
	o.Files = orElse(o.Files, maxConns)
	if o.Parallel < 1 || o.Files < 1 {
		return nil, fmt.Errorf("upload: %d parts and %d files at once: want at least 1", o.Parallel, o.Files)
	}
	if o.PartSize < leastPart || o.PartSize&(o.PartSize-1) != 0 {
		return nil, fmt.Errorf("upload: part size %d: want a power of two, at least %d", o.PartSize, leastPart)
	}
	return &Uploader{c, o, hashFirst, claimWorth}, nil
}

// PutOptions say how one file is to arrive.
type PutOptions struct {
	Conflict Conflict // default Fail
	Parents  bool     // make missing folders
	MIME     string
	Progress Progress

	// SkipSame skips a file that is there with equal size and mtime, or equal content. Known is
	// what is there; where it is nil and New is not set the server is asked.
	SkipSame bool
	Known    *Node
	New      bool
}

// Result tells how a file arrived.
type Result struct {
	Node  Node
	State State // StateSent, StateInstant or StateSkipped
	Note  string
	Moved int64 // bytes that were sent
}

// errBadPath is a place where nothing can be put.
var errBadPath = errors.New("not an absolute path in UTF-8")

func checkPath(dest string) error {
	if !utf8.ValidString(dest) || !strings.HasPrefix(dest, "/") {
		return fmt.Errorf("%q: %w", dest, errBadPath)
	}
	return nil
}

// Put sends src to the absolute remote path dest.
//
// It goes on after every interruption until nothing has succeeded for GiveUp. What has arrived by
// then is kept by the server and found again by the next Put of the same file to the same place.
func (u *Uploader) Put(ctx context.Context, src Source, dest string, o PutOptions) (Result, error) {
	if err := checkPath(dest); err != nil {
		return Result{}, err
	}
	o.Conflict = orElse(o.Conflict, Fail)
	p := newPatience(u.opt.GiveUp)
	m := newMeter(o.Progress, Event{Path: dest, Local: src.Name, State: StateHashing, Total: src.Size})
	p.notify = func(err error, _ time.Duration) { m.waiting(err) }
	res, err := u.put(ctx, &transfer{u: u, src: src, dest: dest, opt: o, patience: p, meter: m})
	if err != nil {
		m.end(StateFailed, err)
		return res, err
	}
	m.end(res.State, nil)
	return res, nil
}

// transfer is one file on its way.
type transfer struct {
	u        *Uploader
	src      Source
	dest     string
	opt      PutOptions
	patience *patience
	meter    *meter
	file     ReadAtCloser
	digest   string // BLAKE3 in hex; empty while it is not known
	there    *Node  // what is at dest, of equal size: the same content need not be sent

	mismatches int // digests that the server refused
}

func (u *Uploader) put(ctx context.Context, t *transfer) (Result, error) {
	file, err := t.src.Open()
	if err != nil {
		return Result{}, err
	}
	defer letGo(file)
	t.file = file
	if t.opt.SkipSame && !t.opt.New {
		if res, same, err := t.isSame(ctx); same || err != nil {
			return res, err
		}
	}
	if t.src.Size <= u.opt.PartSize {
		res, err := t.putSmall(ctx)
		if !errors.Is(err, errNeedsUpload) {
			return res, err
		}
	}
	return t.putParts(ctx)
}

// isSame reports whether the file is there already.
func (t *transfer) isSame(ctx context.Context) (Result, bool, error) {
	known := t.opt.Known
	if known == nil {
		n, err := t.u.c.nodeAt(ctx, t.dest, t.patience)
		if IsCode(err, CodeNotFound) {
			return Result{}, false, nil
		} else if err != nil {
			return Result{}, false, err
		}
		known = &n
	}
	if known.Type != File || known.Size != t.src.Size {
		return Result{}, false, nil
	}
	if stamp(known.Mtime) == stamp(t.src.Mtime) {
		return Result{Node: *known, State: StateSkipped, Note: "same size and time"}, true, nil
	}
	if known.Digests[blake3Name] == "" {
		return Result{}, false, nil
	}
	if t.src.Size > t.u.hashFirst {
		t.there = known // too much to read before anything is sent: the scanner will tell
		return Result{}, false, nil
	}
	if err := t.hash(); err != nil {
		return Result{}, false, err
	}
	same := known.Digests[blake3Name] == t.digest
	return Result{Node: *known, State: StateSkipped, Note: "same content"}, same, nil
}

// hash makes sure that the digest is known.
func (t *transfer) hash() (err error) {
	if t.digest == "" {
		t.meter.state(StateHashing)
		t.digest, err = sumFile(t.file, t.src.Size, nil)
	}
	return err
}

// partSize returns the size of parts to ask for.
func (u *Uploader) partSize(size int64) int64 {
	part := u.opt.PartSize
	for (size+part-1)/part > mostParts {
		part *= 2
	}
	return part
}

// found reports whether dest now holds what was to be sent: after a reply was lost, or a name was
// taken by the same content.
func (t *transfer) found(ctx context.Context) (Node, bool, error) {
	n, err := t.u.c.nodeAt(ctx, t.dest, t.patience)
	if IsCode(err, CodeNotFound) {
		return n, false, nil
	}
	if err != nil || n.Type != File || n.Size != t.src.Size || n.Digests[blake3Name] == "" {
		return n, false, err
	}
	if err := t.hash(); err != nil {
		return n, false, err
	}
	return n, n.Digests[blake3Name] == t.digest, nil
}
