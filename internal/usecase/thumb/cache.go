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

	"smartdrive/internal/base/drive"
)

// cache keeps thumbnails in files:
//
//	<dir>/<2 hex>/<sum>-<format>-<size>     what was made, or why nothing was
//	<dir>/<2 hex>/tmp-<random>              one that is being written; a crash leaves it, and it goes with the oldest
//
//	byte  0..3   CRC-32 (IEEE) of what follows, little-endian: nothing is synced, so a file may come out of a loss of power torn
//	byte  4      'j' JPEG | 'p' PNG | '!' none | '~' none, as it took too long: for an hour after the file was written
//	byte  5..    the picture, or the reason
//
// Everything in it may be deleted at any time, the process running or not. Nothing of it is in a
// backup.
type cache struct {
	dir string
	max drive.ByteSize
	now func() time.Time

	mu      sync.Mutex
	size    drive.ByteSize // of all files, as of the last look
	trimmed time.Time      // when the directory was looked through; zero: not by this process
}

const (
	kindJPEG = 'j'
	kindPNG  = 'p'
	kindNone = '!'
	kindSlow = '~'

	forgetSlow = time.Hour           // a machine that was busy is not for ever; an image that was made for it has two tries in it
	touchAfter = 24 * time.Hour      // the time of a file that is used is exact to this
	trimAfter  = 24 * time.Hour      // so often all files are looked at
	keepFor    = 30 * 24 * time.Hour // unused: what was deleted for good shall not be looked at here for ever
	keepPart   = 8                   // tenths of the cache that stay when it is full
)

func newCache(opt Options) *cache { return &cache{dir: opt.Dir, max: opt.MaxCache, now: opt.Now} }

func (c *cache) path(key string) string { return filepath.Join(c.dir, key[:2], key) }

// find returns what is kept; nil and no error is nothing. NoThumbnail: there is none. Unavailable:
// it took too long a while ago. A file that is not whole is removed.
func (c *cache) find(key string) (*Thumbnail, error) {
	if c.dir == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(c.path(key))
	if err != nil {
		return nil, nil //nolint:nilerr // it is made again
	}
	if len(raw) < 5 || binary.LittleEndian.Uint32(raw) != crc32.ChecksumIEEE(raw[4:]) {
		_ = os.Remove(c.path(key)) // or it is overwritten
		return nil, nil
	}
	if raw[4] == kindSlow {
		return nil, c.slow(key)
	}
	c.touch(key)
	switch raw[4] {
	case kindJPEG:
		return &Thumbnail{"image/jpeg", raw[5:]}, nil
	case kindPNG:
		return &Thumbnail{"image/png", raw[5:]}, nil
	}
	return nil, refused(string(raw[5:]), nil)
}

// slow refuses what took too long until it may be tried again.
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

// touch keeps what is used from being the oldest.
func (c *cache) touch(key string) {
	info, err := os.Stat(c.path(key))
	if now := c.now(); err == nil && now.Sub(info.ModTime()) > touchAfter {
		_ = os.Chtimes(c.path(key), now, now) // it may be gone meanwhile
	}
}

// keep writes what was made.
func (c *cache) keep(key string, t Thumbnail) {
	kind := byte(kindJPEG)
	if t.Type == "image/png" {
		kind = kindPNG
	}
	c.put(key, kind, t.Body)
}

// refuse writes why nothing was made: a refusal, or errTooSlow.
func (c *cache) refuse(key string, why error) {
	if e, ok := errors.AsType[*drive.Error](why); ok {
		reason, _ := e.Args["reason"].(string)
		c.put(key, kindNone, []byte(reason))
		return
	}
	c.put(key, kindSlow, nil)
}

// put writes a file. That it cannot be written, as on a full disk, is not a reason to fail: it is
// made again next time.
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

// writeFile makes the file appear as a whole, as others may be reading it.
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
		_ = os.Remove(f.Name()) // else it goes with the oldest
	}
	return err
}

// grow counts a new file, and makes room when there are too many, or once a day.
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

// trim looks all files through, removes those that nobody used for long, and of the others the
// oldest if they are too much, and returns what is left.
func (c *cache) trim(now time.Time) drive.ByteSize {
	type file struct {
		path string
		size drive.ByteSize
		used time.Time
	}
	var files []file
	total := drive.ByteSize(0)
	_ = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error { // what cannot be read counts nothing
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
