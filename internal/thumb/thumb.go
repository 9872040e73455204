// Package thumb makes small pictures of images: JPEG, PNG, GIF (its first frame), WebP and BMP.
//
// Images are what strangers made, and decoding is where a few bytes become many. So everything is decided before the decoder sees
// the file, from its header alone: which format it is (by its first bytes, never by its name), how many pixels it has, and how much
// memory the decoder will take for them (header.go). Two images are decoded at a time, each for so long at most, and a decoder
// that panics has met a damaged file.
//
// What was made is kept by the content's digest in files that may be deleted at any time (cache.go); that nothing could be made is
// kept, too. The same thumbnail is made once however many ask for it at a time.
package thumb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"smartdrive/internal/drive"
)

// Options configure New. The zero value of each field is its default.
type Options struct {
	// Dir is where thumbnails are kept; it is made when it is needed. Empty: they are made each time.
	Dir string
	// MaxCache is how much the files in Dir may take together. Default: 512 MiB, some 25,000 thumbnails.
	MaxCache drive.ByteSize
	// MaxFile is the largest file that is read. Default: 128 MiB.
	MaxFile drive.ByteSize
	// MaxMemory is the most that a decoder may take for one image. Default: 192 MiB: a JPEG of 130 million pixels, a PNG of 50.
	MaxMemory drive.ByteSize
	// Workers is how many images are decoded at a time. Default: 2.
	Workers int
	// Time is how long one may take. Default: 20 s.
	Time time.Duration
	// Wait is how long a request waits for a worker. Default: 20 s.
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
	set(&o.MaxMemory, 192*drive.MiB)
	if o.Workers == 0 {
		o.Workers = 2
	}
	if o.Time == 0 {
		o.Time = 20 * time.Second
	}
	if o.Wait == 0 {
		o.Wait = 20 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Sizes are the lengths of the longer side, in pixels, that thumbnails are made in. A smaller image stays as small as it is.
func Sizes() []int { return []int{256, 512} }

// Format is the version of what this package makes: it goes into the names of files and the tags of answers.
const Format = "t1"

// Source is an image.
type Source struct {
	Sum string // digest of the content in hex: what the thumbnail is kept under
	// Open opens the content; the maker closes it. It may be called after the call that it was given to has ended.
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

// Counters are what a Maker has done.
type Counters struct{ Made, Kept, Refused atomic.Int64 }

// Maker makes thumbnails. It is safe for concurrent use.
type Maker struct {
	Counters Counters

	opt     Options
	cache   *cache
	flights singleflight.Group
	slots   chan struct{}
}

// New returns a Maker. It does no I/O.
func New(opt Options) *Maker {
	opt = opt.withDefaults()
	return &Maker{opt: opt, cache: newCache(opt), slots: make(chan struct{}, opt.Workers)}
}

// Make returns the thumbnail of an image in one of Sizes. The error is NoThumbnail {reason: type | too-large | damaged} where there
// never will be one, Unavailable where the workers are busy or the image took too long, or the one of opening or reading it.
func (m *Maker) Make(ctx context.Context, src Source, size int) (Thumbnail, error) {
	key := fmt.Sprintf("%s-%s-%d", src.Sum, Format, size)
	if t, err := m.cache.find(key); t != nil || err != nil {
		m.Counters.Kept.Add(1)
		return deref(t), err
	}
	// The work goes on when the one who asked first goes away: others may wait for it, and it is kept.
	result := m.flights.DoChan(key, func() (any, error) { return m.produce(context.WithoutCancel(ctx), src, size, key) })
	select {
	case <-ctx.Done():
		return Thumbnail{}, context.Cause(ctx)
	case r := <-result:
		t, _ := r.Val.(Thumbnail)
		return t, r.Err
	}
}

func deref(t *Thumbnail) Thumbnail {
	if t == nil {
		return Thumbnail{}
	}
	return *t
}

// produce waits for its turn, makes the thumbnail and keeps the outcome if it will always be this one.
func (m *Maker) produce(ctx context.Context, src Source, size int, key string) (Thumbnail, error) {
	wait, cancel := context.WithTimeout(ctx, m.opt.Wait)
	defer cancel()
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-wait.Done():
		return Thumbnail{}, drive.Fail(drive.Unavailable)
	}
	ctx, cancelWork := context.WithTimeout(ctx, m.opt.Time)
	defer cancelWork()
	t, err := m.read(ctx, src, size)
	switch {
	case err == nil:
		m.Counters.Made.Add(1)
	case drive.IsKind(err, drive.NoThumbnail):
		m.Counters.Refused.Add(1)
	case errors.Is(err, context.DeadlineExceeded):
		return Thumbnail{}, drive.Wrap(err, drive.Unavailable)
	default:
		return Thumbnail{}, err
	}
	m.cache.keep(key, t, err)
	return t, err
}

// read opens the image and makes its thumbnail. What fails while it is being decoded is the file's fault, unless reading did.
func (m *Maker) read(ctx context.Context, src Source, size int) (_ Thumbnail, err error) {
	f, err := src.Open(ctx)
	if err != nil {
		return Thumbnail{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if f.Size() > m.opt.MaxFile {
		return Thumbnail{}, refused("too-large", nil)
	}
	r := &reader{over: ctx.Err, file: f}
	t, err := m.picture(r, size)
	if err != nil && r.failed != nil {
		return Thumbnail{}, fmt.Errorf("read an image: %w", r.failed)
	}
	return t, err
}

func refused(reason string, cause error) error {
	return drive.Wrap(cause, drive.NoThumbnail, "reason", reason)
}

// reader reads an image until the time is over, and remembers what failed, which decoders wrap in words of their own.
type reader struct {
	over   func() error // why reading must end now
	file   File
	failed error
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if err := r.over(); err != nil {
		r.failed = err
		return 0, err
	}
	n, err := r.file.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed = err
	}
	return n, err
}
