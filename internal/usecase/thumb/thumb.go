// Package thumb makes small pictures of images: JPEG, PNG, GIF (its first frame), WebP and BMP;
// and, where a helper for it is installed, of videos, PDFs, HEIC and TIFF (helper.go).
//
// Images are untrusted, and a few bytes can decode to gigabytes. Three defences stand one behind
// the other:
//
//   - Before the decoder sees the file, its header tells the format (by the first bytes, never by
//     the name), the number of pixels and the memory that the decoder will use for them
//     (header.go).
//   - The decoder runs in a child process with limited memory and processor time (child.go). If the
//     header lied, only that process dies.
//   - Two images are decoded at a time, by default, and one account gets all but one of these
//     workers. Each image has a time limit. PDFs, and other files that a helper reads, have
//     separate queues of one worker each, fair between accounts.
//
// If Options.Child is not set, or the system cannot start a child, decoders run in this process.
// Then the first and the third defence hold, and a panic of a decoder counts as a damaged file.
//
// Thumbnails are cached by the digest of the content, in files that may be deleted at any time.
// Concurrent requests for one thumbnail are coalesced.
package thumb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/turn"
)

// Options configure New. The zero value of each field is its default.
type Options struct {
	// Dir is the directory of the cache, created when needed. Empty: nothing is cached.
	Dir string
	// MaxCache bounds the total size of the cache. Default: 512 MiB, some 25,000 thumbnails.
	MaxCache drive.ByteSize
	// MaxFile is the largest file that is decoded; of larger videos a helper reads parts.
	// Default: 128 MiB.
	MaxFile drive.ByteSize
	// MaxMemory bounds the memory of one decoder, and of all children but helpers together.
	// Default: 128 MiB, enough for a JPEG of 85 million pixels or a PNG of 33 million.
	MaxMemory drive.ByteSize
	// Small is the memory of children that run in parallel. An image that needs more is decoded
	// again in a child with MaxMemory, alone. Default: 40 MiB, enough for a JPEG of 26 million
	// pixels or a PNG of 10 million.
	Small drive.ByteSize
	// Child is the command line that starts a child: a program that passes its further
	// arguments to Serve. Empty: this process decodes.
	Child []string
	// Helpers finds the program of a helper, like exec.LookPath. Nil: no helpers. Helpers need
	// Child.
	Helpers func(name string) (path string, err error)
	// HelperMemory bounds the memory of a helper; a light helper gets half. Default: 384 MiB,
	// enough for a frame of a film in 4K.
	HelperMemory drive.ByteSize
	// Workers is how many images are decoded in parallel. Default: 2.
	Workers int
	// Time bounds the work on one image, reading included. Default: 20 s.
	Time time.Duration
	// Processor bounds the processor time of a child, in whole seconds; a light helper gets
	// half. Default: 10 s.
	Processor time.Duration
	// Wait bounds how long a request waits for a worker. Default: 20 s.
	Wait time.Duration
	// Now is the clock of the cache. Default: time.Now.
	Now func() time.Time
}

// withDefaults returns o with the zero fields that have a default set to it.
func (o Options) withDefaults() Options {
	set := func(field *drive.ByteSize, value drive.ByteSize) {
		if *field == 0 {
			*field = value
		}
	}
	set(&o.MaxCache, 512*drive.MiB)
	set(&o.MaxFile, 128*drive.MiB)
	set(&o.MaxMemory, 128*drive.MiB)
	set(&o.Small, 40*drive.MiB)
	set(&o.HelperMemory, 384*drive.MiB)
	o.Workers = cmp.Or(o.Workers, 2)
	o.Time = cmp.Or(o.Time, 20*time.Second)
	o.Processor = cmp.Or(o.Processor, 10*time.Second)
	o.Wait = cmp.Or(o.Wait, 20*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Sizes returns the lengths of the longer side, in pixels, that thumbnails come in. A smaller image
// is not enlarged.
func Sizes() []int { return []int{256, 512, helperSide} }

// Format is the version of the thumbnails: names in the cache and ETags contain it. Change it when
// thumbnails of the same image change.
const Format = "t2"

// Source is a file to make a thumbnail of.
type Source struct {
	Sum string // digest of the content in hex; the cache key
	// Open opens the content; the Maker closes it. The Maker may call Open after Make has
	// returned.
	Open func(context.Context) (File, error)
}

// File is an opened content. The code that opened it must close it.
type File interface {
	io.ReaderAt
	io.Closer
	// Size returns the length of the content in bytes.
	Size() drive.ByteSize
}

// Thumbnail is an encoded picture. The zero value is none.
type Thumbnail struct {
	Type string // image/jpeg, or image/png if any pixel is transparent
	Body []byte
}

// Counters count the work of a Maker: thumbnails made, answers from the cache, refusals, images
// decoded in a child (Apart), and files given to a helper (Helped).
type Counters struct{ Made, Kept, Refused, Apart, Helped atomic.Int64 }

// Maker makes thumbnails. It is safe for concurrent use.
type Maker struct {
	Counters Counters

	opt     Options
	cache   *cache
	flights singleflight.Group
	memory  *semaphore.Weighted // MaxMemory, which all children but helpers share
	images  *turn.Limiter
	light   *turn.Limiter // of helpers that are light
	heavy   *turn.Limiter // of the other helpers
	helpers []installed
}

// New returns a Maker. It looks for installed helpers and does no other I/O.
func New(opt Options) *Maker {
	opt = opt.withDefaults()
	m := &Maker{
		opt: opt, cache: newCache(opt), memory: semaphore.NewWeighted(int64(opt.MaxMemory)),
		images: turn.New(max(1, opt.Workers-1), opt.Workers), light: turn.New(1, 1), heavy: turn.New(1, 1),
	}
	if opt.Helpers != nil && len(opt.Child) > 0 {
		m.helpers = findHelpers(opt.Helpers)
	}
	return m
}

// Make returns the thumbnail of src; size is one of Sizes. The work is charged to account. It fails
// with NoThumbnail {reason: type | too-large | damaged} if src can never have a thumbnail, with
// Unavailable if the workers are busy or the image takes too long, or with the error of opening or
// reading src.
func (m *Maker) Make(ctx context.Context, account drive.AccountID, src Source, size int) (Thumbnail, error) {
	key := keyOf(src, size)
	if t, err := m.cache.find(key); t != nil || err != nil {
		m.Counters.Kept.Add(1)
		return deref(t), err
	}
	if _, err := m.cache.find(m.noneKey(src)); err != nil {
		m.Counters.Kept.Add(1)
		return Thumbnail{}, err
	}
	// The work continues after the caller has left: other callers may wait for it, and the
	// result is cached.
	result := m.flights.DoChan(key, func() (any, error) { return m.produce(context.WithoutCancel(ctx), account, src, size) })
	select {
	case <-ctx.Done():
		return Thumbnail{}, context.Cause(ctx)
	case r := <-result:
		t, _ := r.Val.(Thumbnail)
		return t, r.Err
	}
}

// anySize is the size under which refusals are cached: a refusal holds for all sizes.
const anySize = 0

// noneKey is the cache key of a refusal of src. It includes Kinds, because another helper may
// accept src.
func (m *Maker) noneKey(src Source) string {
	return strings.Join(append([]string{keyOf(src, anySize)}, m.Kinds()...), "-")
}

// keyOf returns the cache key of a thumbnail of size: the digest of the source, the version of this
// package, and the size.
func keyOf(src Source, size int) string { return fmt.Sprintf("%s-%s-%d", src.Sum, Format, size) }

// deref returns *t, or the zero Thumbnail if t is nil.
func deref(t *Thumbnail) Thumbnail {
	if t == nil {
		return Thumbnail{}
	}
	return *t
}

// produce waits for a worker, makes the thumbnail and caches it, or caches the refusal. Errors of
// reading src are not cached.
func (m *Maker) produce(ctx context.Context, account drive.AccountID, src Source, size int) (Thumbnail, error) {
	wait, cancel := context.WithTimeout(ctx, m.opt.Wait)
	defer cancel()
	turns, err := m.turnsOf(wait, src)
	if wait.Err() != nil {
		return Thumbnail{}, drive.Wrap(wait.Err(), drive.Unavailable)
	}
	if err != nil {
		return Thumbnail{}, err
	}
	leave, err := turns.Acquire(wait, account)
	if err != nil {
		return Thumbnail{}, drive.Wrap(err, drive.Unavailable)
	}
	defer leave()
	ctx, cancelWork := context.WithTimeout(ctx, m.opt.Time)
	defer cancelWork()
	t, err := m.read(ctx, src, size)
	switch {
	case err == nil:
		m.Counters.Made.Add(1)
		m.cache.keep(keyOf(src, size), t)
	case drive.IsKind(err, drive.NoThumbnail):
		m.Counters.Refused.Add(1)
		m.cache.refuse(m.noneKey(src), err)
	case errors.Is(err, errTooSlow):
		m.cache.refuse(m.noneKey(src), err)
		return Thumbnail{}, drive.Wrap(err, drive.Unavailable)
	case errors.Is(err, context.DeadlineExceeded):
		return Thumbnail{}, drive.Wrap(err, drive.Unavailable)
	}
	return t, err
}

// turnsOf returns the limiter in which a file queues, chosen by its first bytes, so that one kind
// of files does not wait for another.
func (m *Maker) turnsOf(ctx context.Context, src Source) (_ *turn.Limiter, err error) {
	if len(m.helpers) == 0 {
		return m.images, nil
	}
	f, err := src.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h, ok, err := m.helperFor(&reader{file: f, over: ctx.Err})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the beginning of a file: %w", err)
	case !ok:
		return m.images, nil
	case h.light:
		return m.light, nil
	}
	return m.heavy, nil
}

// errTooSlow reports that an image used up its time, or that its process could not run.
var errTooSlow = errors.New("the image takes too long to decode")

// read opens src and makes its thumbnail. It returns errTooSlow if the time ran out, unless at
// least half of it was spent on waiting and reading. An error of reading src takes precedence over
// the decoder's.
func (m *Maker) read(ctx context.Context, src Source, size int) (_ Thumbnail, err error) {
	began := time.Now()
	f, err := src.Open(ctx)
	if err != nil {
		return Thumbnail{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := &reader{file: f, over: ctx.Err, waited: time.Since(began)}
	t, err := m.render(ctx, r, size)
	switch {
	case err == nil:
		return t, nil
	case r.failed != nil:
		return Thumbnail{}, fmt.Errorf("read an image: %w", r.failed)
	case ctx.Err() != nil && r.waited < m.opt.Time/2: // decoding took the time, not the store
		return Thumbnail{}, fmt.Errorf("%w: %v", errTooSlow, err) //nolint:errorlint // what the decoder made of it is no refusal
	case ctx.Err() != nil:
		return Thumbnail{}, ctx.Err()
	}
	return t, err
}

// render makes the thumbnail of an open file, by a helper or a decoder. It returns NoThumbnail for
// a file that is too large, unknown or damaged.
func (m *Maker) render(ctx context.Context, r *reader, size int) (Thumbnail, error) {
	if len(m.helpers) > 0 {
		h, ok, err := m.helperFor(r)
		if err != nil {
			return Thumbnail{}, err
		}
		if ok {
			return m.byHelper(ctx, h, r, size)
		}
	}
	if r.file.Size() > m.opt.MaxFile {
		return Thumbnail{}, refused(reasonTooLarge, nil)
	}
	return m.decode(ctx, r, size)
}

// decode makes the thumbnail in a child process, or in this process if no child can be started. It
// fails with NoThumbnail {reason} if the image is too large or damaged, and with errTooSlow.
func (m *Maker) decode(ctx context.Context, r *reader, size int) (Thumbnail, error) {
	if len(m.opt.Child) > 0 {
		t, err := m.decodeInChild(ctx, r, size)
		if !errors.Is(err, errNoChild) {
			m.Counters.Apart.Add(1)
			return t, err
		}
	}
	return picture(ctx, r, size, r.orientation, m.opt.MaxMemory)
}

// refused returns a NoThumbnail error with a reason code that wraps cause, which may be nil.
func refused(reason string, cause error) error {
	return drive.Wrap(cause, drive.NoThumbnail, "reason", reason)
}

// reader reads a file from front to back until over fails. It records read errors, which decoders
// would hide in errors of their own, and the time spent waiting.
type reader struct {
	file File
	over func() error // fails once the time is over
	// at is the offset of the next read.
	at          int64
	orientation int // to turn the image by, after its own orientation
	// waited is the time spent on reading and on waiting for memory.
	waited time.Duration
	failed error // error of reading the file; not of over
}

// Read reads the file from r.at on and adds the time it waited to r.waited. It returns the error of
// over if the time is up. Another error than io.EOF is also kept in r.failed, so that it is not
// taken for a damaged picture.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.over(); err != nil {
		return 0, err
	}
	if r.at >= int64(r.file.Size()) {
		return 0, io.EOF
	}
	began := time.Now()
	n, err := r.file.ReadAt(p[:min(int64(len(p)), int64(r.file.Size())-r.at)], r.at)
	r.waited += time.Since(began)
	r.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil && !errors.Is(err, io.EOF) && r.over() == nil {
		r.failed = err
	}
	return n, err
}
