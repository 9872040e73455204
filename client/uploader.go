package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Uploader uploads files. It resumes after interruptions of the program, the network or the server,
// and loses at most the parts in flight. It is safe for concurrent use.
type Uploader struct {
	c   *Client
	opt UploadOptions

	hashFirst, minClaim int64 // hashFirstBytes and minClaimBytes; smaller in tests
}

// UploadOptions configure an Uploader. Zero fields mean the defaults.
type UploadOptions struct {
	Parallel   int           // concurrent parts of one file; default 4
	PartSize   int64         // bytes, a power of two from 1 MiB; default 8 MiB. Doubled until a file fits 10,000 parts
	RetryFor   time.Duration // how long to retry without progress; default 15 minutes
	Files      int           // concurrent connections of a tree; default 16
	NoBatching bool          // upload each small file of a tree on its own instead of many per request
}

// Sizes that decide how a file is sent, in bytes.
const (
	defaultPartSize = 8 << 20
	minPartSize     = 1 << 20
	maxParts        = 10_000
	hashFirstBytes  = 64 << 20 // smaller files are hashed before begin, which then carries the claim
	minClaimBytes   = 16 << 20 // a claim during the upload needs at least so much unsent
)

// Uploader returns an Uploader that uses c. It fails if an option is invalid.
func (c *Client) Uploader(o UploadOptions) (*Uploader, error) {
	o.Parallel = orDefault(o.Parallel, 4)
	o.PartSize = orDefault(o.PartSize, defaultPartSize)
	o.RetryFor = orDefault(o.RetryFor, 15*time.Minute)
	o.Files = orDefault(o.Files, maxConns)
	if o.Parallel < 1 || o.Files < 1 {
		return nil, fmt.Errorf("upload: %d parts and %d files at once: want at least 1", o.Parallel, o.Files)
	}
	if o.PartSize < minPartSize || o.PartSize&(o.PartSize-1) != 0 {
		return nil, fmt.Errorf("upload: part size %d: want a power of two, at least %d", o.PartSize, minPartSize)
	}
	return &Uploader{c, o, hashFirstBytes, minClaimBytes}, nil
}

// PutOptions configure the upload of one file.
type PutOptions struct {
	Conflict Conflict // default Fail
	Parents  bool     // make missing folders
	MIME     string
	Progress Progress

	// SkipSame skips the file if dest has equal size and mtime, or equal content. Known is the
	// node at dest if the caller knows it. New says that nothing is at dest. If Known is nil
	// and New is false, Put asks the server.
	SkipSame bool
	Known    *Node
	New      bool
}

// Result is the result of a transfer.
type Result struct {
	Node  Node
	State State  // StateSent, StateInstant, StateSkipped or StateReceived
	Note  string // a remark for people, such as why the file was skipped; empty: none
	Moved int64  // bytes transferred
}

// errBadPath reports a remote path that is not absolute or not UTF-8.
var errBadPath = errors.New("not an absolute path in UTF-8")

// checkPath returns errBadPath, wrapped with dest, unless dest is absolute and UTF-8; else nil.
func checkPath(dest string) error {
	if !utf8.ValidString(dest) || !strings.HasPrefix(dest, "/") {
		return fmt.Errorf("%q: %w", dest, errBadPath)
	}
	return nil
}

// Put uploads src to the absolute remote path dest and emits the final event.
//
// It retries after interruptions until nothing has succeeded for RetryFor. The server keeps the
// parts received by then; a later Put of the same file to the same path resumes. Put fails with a
// Problem such as CodeNameTaken or CodeQuota, or ErrChanged if the source changed meanwhile.
func (u *Uploader) Put(ctx context.Context, src Source, dest string, o PutOptions) (Result, error) {
	if err := checkPath(dest); err != nil {
		return Result{}, err
	}
	o.Conflict = orDefault(o.Conflict, Fail)
	p := newRetryBudget(u.opt.RetryFor)
	m := newMeter(o.Progress, Event{Path: dest, Local: src.Name, State: StateHashing, Total: src.Size})
	p.notify = func(err error, _ time.Duration) { m.retrying(err) }
	res, err := u.put(ctx, &transfer{u: u, src: src, dest: dest, opt: o, budget: p, meter: m})
	if err != nil {
		m.finish(StateFailed, err)
		return res, err
	}
	m.finish(res.State, nil)
	return res, nil
}

// transfer is the upload of one file in progress. It is used by one goroutine.
type transfer struct {
	u        *Uploader
	src      Source
	dest     string
	opt      PutOptions
	budget   *retryBudget
	meter    *meter
	file     ReadAtCloser
	digest   string // BLAKE3 in hex; empty: not computed yet
	existing *Node  // node at dest with equal size, compared once the digest is known; nil: none

	mismatches int // digest mismatches reported by the server
}

// put opens the source and uploads it: in one request if it fits a part, else in parts. It closes
// the source.
func (u *Uploader) put(ctx context.Context, t *transfer) (Result, error) {
	file, err := t.src.Open()
	if err != nil {
		return Result{}, err
	}
	defer closeQuietly(file)
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

// isSame reports whether dest holds the same file already, and the result for that case. A file too
// large to hash first is not compared here; its remote node is stored in t.existing. It fails if
// the server cannot be asked or the file not be read.
func (t *transfer) isSame(ctx context.Context) (Result, bool, error) {
	known := t.opt.Known
	if known == nil {
		n, err := t.u.c.nodeAt(ctx, t.dest, t.budget)
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
	if mtimeMillis(known.Mtime.Time) == mtimeMillis(t.src.Mtime) {
		return Result{Node: *known, State: StateSkipped, Note: "same size and time"}, true, nil
	}
	if known.Digests[blake3Name] == "" {
		return Result{}, false, nil
	}
	if t.src.Size > t.u.hashFirst {
		t.existing = known // hashing first would take too long; scan compares later
		return Result{}, false, nil
	}
	if err := t.hash(); err != nil {
		return Result{}, false, err
	}
	same := known.Digests[blake3Name] == t.digest
	return Result{Node: *known, State: StateSkipped, Note: "same content"}, same, nil
}

// hash sets t.digest by reading the whole file, unless it is known. It fails with the error of
// reading.
func (t *transfer) hash() (err error) {
	if t.digest == "" {
		t.meter.setState(StateHashing)
		t.digest, err = sumFile(t.file, t.src.Size, nil)
	}
	return err
}

// partSize returns the part size to request for a file of the given size: that of the options,
// doubled until the file has at most maxParts parts.
func (u *Uploader) partSize(size int64) int64 {
	part := u.opt.PartSize
	for (size+part-1)/part > maxParts {
		part *= 2
	}
	return part
}

// findSame returns the node at dest and reports whether it has the same content as the source. It
// is used after a lost reply or a name conflict. Without a node at dest it is false. It fails if
// the server cannot be asked or the file not be read.
func (t *transfer) findSame(ctx context.Context) (Node, bool, error) {
	n, err := t.u.c.nodeAt(ctx, t.dest, t.budget)
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
