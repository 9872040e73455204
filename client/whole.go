package client

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// Whole is how far a tree is.
type Whole struct {
	Files, Bytes       int64         // that have ended, whichever way
	OfFiles, OfBytes   int64         // that there are, as far as they were counted
	Counted            bool          // all were
	FileRate, ByteRate float64       // a second, lately
	Left               time.Duration // 0: not known
}

const wholeEvery = 200 * time.Millisecond

// whole counts what ends of a tree, and beside it what there is.
type whole struct {
	fn func(Whole)

	mu           sync.Mutex
	now          Whole
	shown, mark  time.Time
	markF, markB int64
	counting     sync.WaitGroup
	stop         context.CancelFunc
}

// count counts the files below a local folder, beside what is done to them.
func (w *whole) count(ctx context.Context, local string) {
	if w.fn == nil {
		return
	}
	ctx, w.stop = context.WithCancel(ctx)
	w.counting.Go(func() {
		err := filepath.WalkDir(local, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && path != local && isOwn(d.Name()) {
				return fs.SkipDir
			}
			if err != nil || !d.Type().IsRegular() || isOwn(d.Name()) {
				return ctx.Err() // whoever sends it tells of its error
			}
			info, err := d.Info()
			if err != nil {
				return ctx.Err()
			}
			w.mu.Lock()
			w.now.OfFiles++
			w.now.OfBytes += info.Size()
			w.mu.Unlock()
			return ctx.Err()
		})
		w.mu.Lock()
		w.now.Counted = err == nil
		w.mu.Unlock()
	})
}

// found counts a file that is to be fetched; all says that there are no more.
func (w *whole) found(size int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.OfFiles++
	w.now.OfBytes += size
}

func (w *whole) foundAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.Counted = true
}

// ended counts a file that has ended.
func (w *whole) ended(i Item) {
	if w.fn == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.Files++
	w.now.Bytes += i.Result.Node.Size
	w.showLocked(false)
}

// finish tells how it ended.
func (w *whole) finish() {
	if w.fn == nil {
		return
	}
	if w.stop != nil {
		w.stop()
	}
	w.counting.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.showLocked(true)
}

func (w *whole) showLocked(last bool) {
	now := time.Now()
	if w.mark.IsZero() {
		w.mark, w.shown = now, now
	}
	if !last && now.Sub(w.shown) < wholeEvery {
		return
	}
	w.shown = now
	if d := now.Sub(w.mark).Seconds(); d >= rateEvery.Seconds() {
		mix := func(was *float64, n int64) {
			rate := float64(n) / d
			if *was > 0 {
				rate = rateKeep**was + (1-rateKeep)*rate
			}
			*was = rate
		}
		mix(&w.now.FileRate, w.now.Files-w.markF)
		mix(&w.now.ByteRate, w.now.Bytes-w.markB)
		w.mark, w.markF, w.markB = now, w.now.Files, w.now.Bytes
	}
	w.now.Left = 0
	if w.now.Counted && w.now.FileRate > 0 { // by what takes longer, the files or their bytes
		left := float64(w.now.OfFiles-w.now.Files) / w.now.FileRate
		if w.now.ByteRate > 0 {
			left = max(left, float64(w.now.OfBytes-w.now.Bytes)/w.now.ByteRate)
		}
		w.now.Left = time.Duration(max(0, left) * float64(time.Second))
	}
	w.fn(w.now)
}
