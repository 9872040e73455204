// Package thumb makes small pictures of images: JPEG, PNG, GIF (its first frame), WebP and BMP;
// and, where a helper for it is installed, of videos, PDFs, HEIC and TIFF (helper.go).
//
// Images are what strangers made, and decoding is where a few bytes become many. Three fences stand
// one behind the other:
//
//   - Before the decoder sees the file, its header says which format it is (by its first bytes, never by its name), how many pixels it
//     has, and how much memory the decoder will take for them (header.go).
//   - The decoder runs in a process of its own, to which the system gives so much memory and so much time of the processor, and no
//     more (child.go). What the header did not tell ends that process, and nobody else's.
//   - Two images are decoded at a time, of one account all but one, each for so long at most. PDFs, and the other files that a helper
//     reads, have turns of their own: one at a time, in turns between accounts.
//
// Where such a process cannot be had, which is where Options.Child is not set or the system does
// not start it, decoders run in this one: then the first and the third hold, and a decoder that
// panics has met a damaged file.
//
// What was made is kept by the content's digest in files that may be deleted at any time
// (cache.go). That nothing could be made is kept, too; that it took too long is kept for an hour.
// The same thumbnail is made once however many ask for it at a time.
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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/turn"
)

// Options configure New. The zero value of each field is its default.
type Options struct {
	// Dir is where thumbnails are kept; it is made when it is needed. Empty: they are made each
	// time.
	Dir string
	// MaxCache is how much the files in Dir may take together. Default: 512 MiB, some 25,000
	// thumbnails.
	MaxCache drive.ByteSize
	// MaxFile is the largest file that is read. Default: 128 MiB.
	MaxFile drive.ByteSize
	// MaxMemory is the most that a decoder may take for one image, and all children together.
	// Default: 128 MiB: a JPEG of 85 million pixels, a PNG of 33.
	MaxMemory drive.ByteSize
	// Small is what each of several children may take beside each other; an image that takes more
	// is decoded alone. Default: 40 MiB: a JPEG of 26 million pixels, a PNG of 10.
	Small drive.ByteSize
	// Child is the program and its first arguments that decode an image in a process of their own;
	// it calls Serve with the arguments that come after them. Empty: this process decodes.
	Child []string
	// Helpers finds the programs that are there for other files (exec.LookPath); nil: there are
	// none. They need Child.
	Helpers func(name string) (path string, err error)
	// HelperMemory is what a helper may take, a light one half of it. Default: 384 MiB: a frame of
	// a film in 4K.
	HelperMemory drive.ByteSize
	// Workers is how many images are decoded at a time. Default: 2.
	Workers int
	// Time is how long one may take. Default: 20 s.
	Time time.Duration
	// Processor is how much of a processor's time a child may take, in whole seconds, a light
	// helper half of it. Default: 10 s.
	Processor time.Duration
	// Wait is how long a request waits for its turn and a worker. Default: 20 s.
	Wait time.Duration
	// Now is the clock of the cache. Default: time.Now.
	Now func() time.Time
}

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

// Sizes are the lengths of the longer side, in pixels, that thumbnails are made in. A smaller image
// stays as small as it is.
func Sizes() []int { return []int{256, 512, helperSide} }

// Format is the version of what this package makes: it goes into the names of files and the tags of
// answers.
const Format = "t2"

// Source is an image.
type Source struct {
	Sum string // digest of the content in hex: what the thumbnail is kept under
	// Open opens the content; the maker closes it. It may be called after the call that it was
	// given to has ended.
	Open func(context.Context) (File, error)
}

// File is a content that is open for reading.
type File interface {
	io.ReaderAt
	io.Closer
	Size() drive.ByteSize
}

// Thumbnail is a small picture.
type Thumbnail struct {
	Type string // image/jpeg, or image/png where something is transparent
	Body []byte
}

// Counters are what a Maker has done. Apart is how many images a process of their own was started
// for, Helped how many files a helper was started for.
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

// New returns a Maker. It looks for helpers, and does no other I/O.
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

// Make returns the thumbnail of an image in one of Sizes; the work counts for account. The error is
// NoThumbnail {reason: type | too-large | damaged} where there never will be one, Unavailable where
// the workers are busy or the image takes too long, or the one of opening or reading it.
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
	// The work goes on when the one who asked first goes away: others may wait for it, and it is
	// kept.
	result := m.flights.DoChan(key, func() (any, error) { return m.produce(context.WithoutCancel(ctx), account, src, size) })
	select {
	case <-ctx.Done():
		return Thumbnail{}, context.Cause(ctx)
	case r := <-result:
		t, _ := r.Val.(Thumbnail)
		return t, r.Err
	}
}

// anySize is the size under which it is kept that nothing can be made: what holds of a file holds
// of all its thumbnails.
const anySize = 0

// noneKey is where it is kept that nothing can be made: with another set of helpers it is asked
// again.
func (m *Maker) noneKey(src Source) string {
	return strings.Join(append([]string{keyOf(src, anySize)}, m.Kinds()...), "-")
}

func keyOf(src Source, size int) string { return fmt.Sprintf("%s-%s-%d", src.Sum, Format, size) }

func deref(t *Thumbnail) Thumbnail {
	if t == nil {
		return Thumbnail{}
	}
	return *t
}

// produce waits for its turn, makes the thumbnail and keeps the outcome if it will always be this
// one.
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

// turnsOf returns whose turns a file waits for, by what it begins with: one kind of files does not
// wait for another.
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

// errTooSlow is an image whose decoder has used up its time.
var errTooSlow = errors.New("the image takes too long to decode")

// read opens the image and makes its thumbnail. What fails while it is being decoded is the file's
// fault, unless reading did.
func (m *Maker) read(ctx context.Context, src Source, size int) (_ Thumbnail, err error) {
	began := time.Now()
	f, err := src.Open(ctx)
	if err != nil {
		return Thumbnail{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := &reader{file: f, over: ctx.Err, waited: time.Since(began)}
	t, err := m.look(ctx, r, size)
	switch {
	case err == nil:
		return t, nil
	case r.failed != nil:
		return Thumbnail{}, fmt.Errorf("read an image: %w", r.failed)
	case ctx.Err() != nil && r.waited < m.opt.Time/2: // it was not the store that took the time
		return Thumbnail{}, fmt.Errorf("%w: %v", errTooSlow, err) //nolint:errorlint // what the decoder made of it is no refusal
	case ctx.Err() != nil:
		return Thumbnail{}, ctx.Err()
	}
	return t, err
}

// look makes the thumbnail of a file that is open, whoever can.
func (m *Maker) look(ctx context.Context, r *reader, size int) (Thumbnail, error) {
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

// decode makes the thumbnail in a process of its own, or here where there is none.
func (m *Maker) decode(ctx context.Context, r *reader, size int) (Thumbnail, error) {
	if len(m.opt.Child) > 0 {
		t, err := m.apartBySize(ctx, r, size)
		if !errors.Is(err, errNoChild) {
			m.Counters.Apart.Add(1)
			return t, err
		}
	}
	return picture(ctx, r, size, r.orientation, m.opt.MaxMemory)
}

func refused(reason string, cause error) error {
	return drive.Wrap(cause, drive.NoThumbnail, "reason", reason)
}

// reader reads an image from front to back until the time is over. It remembers what failed, which
// decoders wrap in words of their own, and how long it waited.
type reader struct {
	file        File
	over        func() error // why nothing is read any more: the time is over
	at          int64
	orientation int // that the image is to be turned by, beside its own
	waited      time.Duration
	failed      error // of the file; that the time is over is not among it
}

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
