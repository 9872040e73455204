package client

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"lukechampine.com/blake3"
)

// Source is a file to be sent.
type Source struct {
	Name  string // for messages and the fingerprint
	Size  int64  // bytes
	Mtime time.Time
	Open  func() (ReadAtCloser, error)
	// Check returns ErrChanged when the file is no longer what Size and Mtime say; nil never does.
	Check func() error
}

// stamp is what the drive keeps of a file's time, in Unix ms. It has no 0: that is a file without a
// time.
func stamp(t time.Time) int64 {
	if ms := t.UnixMilli(); ms != 0 {
		return ms
	}
	return 1
}

// ReadAtCloser is an open file.
type ReadAtCloser interface {
	io.ReaderAt
	io.Closer
}

// letGo closes what was only read: nothing is lost if that fails.
func letGo(c io.Closer) { _ = c.Close() }

// errNotRegular is a source that is neither a file nor a link to one.
var errNotRegular = errors.New("not a regular file")

// FileSource returns the file at a local path; a symbolic link is followed.
func FileSource(path string) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Source{}, err
	}
	if !info.Mode().IsRegular() {
		return Source{}, fmt.Errorf("%s: %w", path, errNotRegular)
	}
	return fileSource(path, info), nil
}

func fileSource(path string, info os.FileInfo) Source {
	return Source{
		Name: filepath.Base(path), Size: info.Size(), Mtime: info.ModTime(),
		Open: func() (ReadAtCloser, error) { return os.Open(path) },
		Check: func() error {
			now, err := os.Stat(path)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrChanged, err)
			}
			if now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime()) {
				return fmt.Errorf("%w: %s was %d bytes of %s, now %d bytes of %s", ErrChanged, path,
					info.Size(), info.ModTime().Format(time.RFC3339), now.Size(), now.ModTime().Format(time.RFC3339))
			}
			return nil
		},
	}
}

// check is Check, if there is one.
func (s Source) check() error {
	if s.Check == nil {
		return nil
	}
	return s.Check()
}

// sample is how much of each end of a file goes into its fingerprint, in bytes: one read each.
const sample = 64 << 10

// fingerprint names a file well enough to find its upload again without reading all of it: size,
// mtime, name and a sample of both ends. What it finds is checked part by part before it is
// trusted.
func fingerprint(s Source, f io.ReaderAt) (string, error) {
	h := blake3.New(20, nil)
	_, _ = fmt.Fprintf(h, "smartdrive fingerprint 1\n%d\n%d\n%q\n", s.Size, s.Mtime.UnixMilli(), s.Name)
	for _, offset := range []int64{0, max(0, s.Size-sample)} {
		if _, err := io.Copy(h, io.NewSectionReader(f, offset, sample)); err != nil {
			return "", err
		}
	}
	return "v1-" + hex.EncodeToString(h.Sum(nil)), nil
}

// sumFile returns the BLAKE3 digest of the source in hex.
func sumFile(r io.ReaderAt, size int64, moved func(int64)) (string, error) {
	h := blake3.New(32, nil)
	n, err := io.CopyBuffer(h, struct{ io.Reader }{&tellReader{io.NewSectionReader(r, 0, size), moved}}, make([]byte, bufferSize))
	if err != nil {
		return "", err
	}
	if n < size {
		return "", fmt.Errorf("%w: it ended at %d of %d bytes", ErrChanged, n, size)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// bufferSize is how much of a file is read at once, in bytes: enough for BLAKE3 to fill its lanes
// many times over.
const bufferSize = 256 << 10

// tellReader tells how much was read.
type tellReader struct {
	io.Reader
	moved func(int64)
}

func (r *tellReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.moved != nil {
		r.moved(int64(n))
	}
	return n, err
}

// keyedAnswer computes the answer to a challenge: keyed BLAKE3 over uint64le(offset) |
// uint32le(length) | bytes of each range.
func keyedAnswer(ch *Challenge, f io.ReaderAt, size int64) (string, error) {
	key, err := hex.DecodeString(ch.Nonce)
	if err != nil || len(key) != 32 {
		return "", fmt.Errorf("challenge: a nonce of %d hex digits", len(ch.Nonce))
	}
	h := blake3.New(32, key)
	for _, r := range ch.Ranges {
		offset, length := r[0], r[1]
		if offset < 0 || length < 0 || length > 1<<32-1 || offset > size-length {
			return "", fmt.Errorf("challenge: range %v of a file of %d bytes", r, size)
		}
		head := binary.LittleEndian.AppendUint64(nil, uint64(offset))
		_, _ = h.Write(binary.LittleEndian.AppendUint32(head, uint32(length)))
		n, err := io.Copy(h, io.NewSectionReader(f, offset, length))
		if err != nil {
			return "", err
		}
		if n < length {
			return "", fmt.Errorf("%w: it ended at %d bytes", ErrChanged, offset+n)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Sum returns the BLAKE3 digest of a local file in hex, as nodes have it.
func Sum(path string) (string, error) {
	src, err := FileSource(path)
	if err != nil {
		return "", err
	}
	f, err := src.Open()
	if err != nil {
		return "", err
	}
	defer letGo(f)
	return sumFile(f, src.Size, nil)
}

// Digest returns the BLAKE3 digest in hex, empty for a folder.
func (n Node) Digest() string { return n.Digests[blake3Name] }
