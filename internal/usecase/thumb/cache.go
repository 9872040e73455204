package thumb

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// cache stores thumbnails, and refusals to make one, in files:
//
//	<dir>/<2 hex>/<sum>-<format>-<size>     a thumbnail, or the reason why there is none
//	<dir>/<2 hex>/tmp-<random>              a file being written; trim removes those that a crash leaves behind
//
//	byte  0..3   CRC-32 (IEEE) of the rest, little-endian: nothing is synced, so a power cut can leave a torn file
//	byte  4      'j' JPEG | 'p' PNG | '!' refused | '~' refused for taking too long, for forgetSlow after the file's mtime
//	byte  5..    the picture, or the reason
//
// Any file may be deleted at any time, even while the process runs. Backups leave the cache out.
type cache struct {
	dir string
	max drive.ByteSize
	now func() time.Time

	mu      sync.Mutex
	size    drive.ByteSize // of all files: exact after trim, an estimate in between
	trimmed time.Time      // when trim last ran; zero: not yet in this process
}

const (
	// Values of byte 4 of a file.
	kindJPEG = 'j'
	// kindPNG marks a cached PNG.
	kindPNG = 'p'
	// kindNone marks content of which no thumbnail can be made.
	kindNone = '!'
	// kindSlow marks content whose thumbnail took too long.
	kindSlow = '~'

	forgetSlow   = time.Hour           // how long a too-slow image is refused; the machine may only have been busy
	usePrecision = 24 * time.Hour      // resolution of the last-used time, which is the file's mtime
	trimAfter    = 24 * time.Hour      // trim runs at least this often
	keepFor      = 30 * 24 * time.Hour // files unused for longer are removed, so thumbnails of deleted images do not stay
	keepPart     = 8                   // tenths of max that remain after a full cache is trimmed
)

// newCache returns the cache in opt.Dir. It does no I/O.
func newCache(opt Options) *cache { return &cache{dir: opt.Dir, max: opt.MaxCache, now: opt.Now} }

// path returns the path of the cache file for a key of at least two characters.
func (c *cache) path(key string) string { return filepath.Join(c.dir, key[:2], key) }

// find returns the cached thumbnail of key, or nil without an error on a cache miss. It fails with
// NoThumbnail if the image was refused, and with Unavailable {retry_after} if it was too slow less
// than forgetSlow ago. A damaged file is removed and counts as a miss.
func (c *cache) find(key string) (*Thumbnail, error) {
	if c.dir == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(c.path(key))
	if err != nil {
		return nil, nil //nolint:nilerr // it is made again
	}
	if len(raw) < 5 || binary.LittleEndian.Uint32(raw) != crc32.ChecksumIEEE(raw[4:]) {
		_ = os.Remove(c.path(key)) // if this fails, put overwrites it
		return nil, nil
	}
	if raw[4] == kindSlow {
		return nil, c.slow(key)
	}
	c.recordUse(key)
	switch raw[4] {
	case kindJPEG:
		return &Thumbnail{"image/jpeg", raw[5:]}, nil
	case kindPNG:
		return &Thumbnail{"image/png", raw[5:]}, nil
	}
	return nil, refused(string(raw[5:]), nil)
}

// slow returns Unavailable {retry_after} for an image that was too slow, and nil once a retry is
// due.
func (c *cache) slow(key string) error {
	info, err := os.Stat(c.path(key))
	if err != nil {
		return nil //nolint:nilerr // it is gone, and tried again
	}
	age := c.now().Sub(info.ModTime())
	if age < 0 || age >= forgetSlow {
		return nil
	}
	return drive.Wrap(errTooSlow, drive.Unavailable, "retry_after", int((forgetSlow-age+time.Second-1)/time.Second))
}

// recordUse updates the last-used time of a file, so that trim does not evict it as the oldest.
func (c *cache) recordUse(key string) {
	info, err := os.Stat(c.path(key))
	if now := c.now(); err == nil && now.Sub(info.ModTime()) > usePrecision {
		_ = os.Chtimes(c.path(key), now, now) // the file may be gone by now
	}
}

// keep writes a thumbnail into the cache. Errors are ignored: the thumbnail is then made again.
func (c *cache) keep(key string, t Thumbnail) {
	kind := byte(kindJPEG)
	if t.Type == "image/png" {
		kind = kindPNG
	}
	c.put(key, kind, t.Body)
}

// refuse caches that no thumbnail was made, because of why: a NoThumbnail error, which stays, or
// errTooSlow.
func (c *cache) refuse(key string, why error) {
	if e, ok := errors.AsType[*drive.Error](why); ok {
		reason, _ := e.Args["reason"].(string)
		c.put(key, kindNone, []byte(reason))
		return
	}
	c.put(key, kindSlow, nil)
}

// put writes a file and ignores errors such as a full disk: the thumbnail is then made again at the
// next request.
func (c *cache) put(key string, kind byte, content []byte) {
	if c.dir == "" {
		return
	}
	raw := append([]byte{0, 0, 0, 0, kind}, content...)
	binary.LittleEndian.PutUint32(raw, crc32.ChecksumIEEE(raw[4:]))
	if writeFile(c.path(key), raw, c.now()) == nil {
		c.grow(drive.ByteSize(len(raw)))
	}
}

// writeFile replaces path atomically, because others may be reading it, and sets its mtime to now.
// It does not sync. On an error the temporary file is removed.
func writeFile(path string, raw []byte, now time.Time) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "tmp-")
	if err != nil {
		return err
	}
	_, err = bytes.NewReader(raw).WriteTo(f)
	if err = errors.Join(err, f.Close(), os.Chtimes(f.Name(), now, now)); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // if this fails, trim removes it
	}
	return err
}

// grow adds n to the size of the cache and trims the cache if it is full or was not trimmed for
// trimAfter. The caller must not hold mu.
func (c *cache) grow(n drive.ByteSize) {
	now := c.now()
	c.mu.Lock()
	c.size += n
	due := c.size > c.max || now.Sub(c.trimmed) > trimAfter
	if due {
		c.trimmed = now
	}
	c.mu.Unlock()
	if !due {
		return
	}
	size := c.trim(now)
	c.mu.Lock()
	c.size = size
	c.mu.Unlock()
}

// trim removes the files unused for keepFor. If the cache is larger than max, it also removes the
// least recently used files until keepPart tenths of max remain. It returns the size of the rest.
func (c *cache) trim(now time.Time) drive.ByteSize {
	type file struct {
		path string
		size drive.ByteSize
		used time.Time
	}
	var files []file
	total := drive.ByteSize(0)
	_ = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error { // unreadable entries are skipped
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // see above
		}
		if info, err := d.Info(); err == nil {
			used := info.ModTime()
			if strings.HasPrefix(d.Name(), "tmp-") {
				used = used.Add(trimAfter - keepFor)
			}
			files, total = append(files, file{path, drive.ByteSize(info.Size()), used}), total+drive.ByteSize(info.Size())
		}
		return nil
	})
	room := c.max
	if total > c.max {
		room = c.max / 10 * keepPart
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path)) })
	for _, f := range files {
		if total <= room && now.Sub(f.used) <= keepFor {
			break
		}
		if os.Remove(f.path) == nil {
			total -= f.size
		}
	}
	return total
}
