package client

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// TreeProgress is the progress of uploading or downloading a directory tree.
type TreeProgress struct {
	Files, Bytes           int64         // finished, including skipped; a failed file adds no bytes
	TotalFiles, TotalBytes int64         // total, as far as counted
	Counted                bool          // whether the totals are final
	FileRate, ByteRate     float64       // recent rates per second
	Left                   time.Duration // estimated time left; 0: unknown
}

// treeProgressInterval is the least time between two progress reports of a tree.
const treeProgressInterval = 200 * time.Millisecond

// treeMeter counts the finished files of a tree, and concurrently the total.
type treeMeter struct {
	fn func(TreeProgress)

	mu                       sync.Mutex
	progress                 TreeProgress
	emittedAt, windowStart   time.Time
	windowFiles, windowBytes int64
	counting                 sync.WaitGroup
	cancelCount              context.CancelFunc
}

// count starts a goroutine that counts the regular files below a local directory and their bytes
// for the totals. It skips partial files of downloads and what cannot be read. Without a progress
// function it does nothing. Cancelling ctx or cancelCount ends it.
func (m *treeMeter) count(ctx context.Context, local string) {
	if m.fn == nil {
		return
	}
	ctx, m.cancelCount = context.WithCancel(ctx)
	m.counting.Go(func() {
		err := filepath.WalkDir(local, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && path != local && isTempName(d.Name()) {
				return fs.SkipDir
			}
			if err != nil || !d.Type().IsRegular() || isTempName(d.Name()) {
				return ctx.Err() // the upload of the file reports the error
			}
			info, err := d.Info()
			if err != nil {
				return ctx.Err()
			}
			m.mu.Lock()
			m.progress.TotalFiles++
			m.progress.TotalBytes += info.Size()
			m.mu.Unlock()
			return ctx.Err()
		})
		m.mu.Lock()
		m.progress.Counted = err == nil
		m.mu.Unlock()
	})
}

// addFound adds a file of size bytes to the total. It acquires mu and emits nothing.
func (m *treeMeter) addFound(size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress.TotalFiles++
	m.progress.TotalBytes += size
}

// setCounted marks the total as final. It acquires mu.
func (m *treeMeter) setCounted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress.Counted = true
}

// add counts a finished file, whatever its result, and may emit. It acquires mu; without a function
// it does nothing.
func (m *treeMeter) add(i Item) {
	if m.fn == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress.Files++
	m.progress.Bytes += i.Result.Node.Size
	m.emitLocked(false)
}

// finish cancels the counting, waits for it and emits the final progress. Call it once.
func (m *treeMeter) finish() {
	if m.fn == nil {
		return
	}
	if m.cancelCount != nil {
		m.cancelCount()
	}
	m.counting.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.emitLocked(true)
}

// emitLocked reports the progress unless the last report is too recent; last forces it. The caller
// holds m.mu.
func (m *treeMeter) emitLocked(last bool) {
	now := time.Now()
	if m.windowStart.IsZero() {
		m.windowStart, m.emittedAt = now, now
	}
	if !last && now.Sub(m.emittedAt) < treeProgressInterval {
		return
	}
	m.emittedAt = now
	if d := now.Sub(m.windowStart).Seconds(); d >= rateWindow.Seconds() {
		mix := func(was *float64, n int64) {
			rate := float64(n) / d
			if *was > 0 {
				rate = rateDecay**was + (1-rateDecay)*rate
			}
			*was = rate
		}
		mix(&m.progress.FileRate, m.progress.Files-m.windowFiles)
		mix(&m.progress.ByteRate, m.progress.Bytes-m.windowBytes)
		m.windowStart, m.windowFiles, m.windowBytes = now, m.progress.Files, m.progress.Bytes
	}
	m.progress.Left = 0
	if m.progress.Counted && m.progress.FileRate > 0 { // the longer estimate, by files or by bytes
		left := float64(m.progress.TotalFiles-m.progress.Files) / m.progress.FileRate
		if m.progress.ByteRate > 0 {
			left = max(left, float64(m.progress.TotalBytes-m.progress.Bytes)/m.progress.ByteRate)
		}
		m.progress.Left = time.Duration(max(0, left) * float64(time.Second))
	}
	m.fn(m.progress)
}
