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

// Source is a file to be uploaded.
type Source struct {
	Name  string // used in messages and in the fingerprint
	Size  int64  // bytes
	Mtime time.Time
	Open  func() (ReadAtCloser, error)
	// Check returns ErrChanged if the file no longer has Size and Mtime. nil: never checked.
	Check func() error
}

// mtimeMillis returns t in Unix milliseconds as the server stores it. 0 becomes 1, because the
// server uses 0 for a file without a time.
func mtimeMillis(t time.Time) int64 {
	if ms := t.UnixMilli(); ms != 0 {
		return ms
	}
	return 1
}

// ReadAtCloser is an open file for random reads.
type ReadAtCloser interface {
	io.ReaderAt
	io.Closer
}

// closeQuietly closes a file or body that was only read, and ignores the error.
func closeQuietly(c io.Closer) { _ = c.Close() }

// errNotRegular reports a path that is not a regular file or a link to one.
var errNotRegular = errors.New("not a regular file")

// FileSource returns the local file at path as a Source; it follows a symbolic link. It fails if
// the file is missing or not regular.
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

// fileSource returns a Source of the local file at path, whose size and mtime are those of info.
// Its Check fails with ErrChanged if the file has other ones by then or cannot be found.
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

// check returns the result of Check; nil if Check is not set.
func (s Source) check() error {
	if s.Check == nil {
		return nil
	}
	return s.Check()
}

// sampleBytes is how many bytes of each end of a file go into its fingerprint.
const sampleBytes = 64 << 10

// fingerprint returns a key by which a later run finds the upload of the same file without reading
// all of the file: a hash of size, mtime, name, and a sample of both ends. Each part of an upload
// found this way is still compared before it is trusted. It fails if the file cannot be read.
func fingerprint(s Source, f io.ReaderAt) (string, error) {
	h := blake3.New(20, nil)
	_, _ = fmt.Fprintf(h, "smartdrive fingerprint 1\n%d\n%d\n%q\n", s.Size, s.Mtime.UnixMilli(), s.Name)
	for _, offset := range []int64{0, max(0, s.Size-sampleBytes)} {
		if _, err := io.Copy(h, io.NewSectionReader(f, offset, sampleBytes)); err != nil {
			return "", err
		}
	}
	return "v1-" + hex.EncodeToString(h.Sum(nil)), nil
}

// sumFile returns the BLAKE3 digest of the first size bytes of r in hex. It fails with ErrChanged
// if r is shorter. moved, if not nil, receives the bytes read.
func sumFile(r io.ReaderAt, size int64, moved func(int64)) (string, error) {
	h := blake3.New(32, nil)
	n, err := io.CopyBuffer(h, struct{ io.Reader }{&countingReader{io.NewSectionReader(r, 0, size), moved}}, make([]byte, bufferSize))
	if err != nil {
		return "", err
	}
	if n < size {
		return "", fmt.Errorf("%w: it ended at %d of %d bytes", ErrChanged, n, size)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// bufferSize is how many bytes of a file are read at a time; enough to use BLAKE3's SIMD lanes.
const bufferSize = 256 << 10

// countingReader reports the number of bytes of each read.
type countingReader struct {
	io.Reader
	moved func(int64)
}

// Read reads from the wrapped reader and calls moved, unless it is nil, with the number of bytes
// read.
func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.moved != nil {
		r.moved(int64(n))
	}
	return n, err
}

// keyedAnswer computes the answer to a challenge: BLAKE3 keyed with the nonce, over
// uint64le(offset) | uint32le(length) | bytes of each range. It fails if a range is outside of the
// file, and with ErrChanged if the file is shorter than size.
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

// FileDigest returns the BLAKE3 digest of a local file in hex, comparable with Node.Digest. It
// fails if the file cannot be read or is no regular file.
func FileDigest(path string) (string, error) {
	src, err := FileSource(path)
	if err != nil {
		return "", err
	}
	f, err := src.Open()
	if err != nil {
		return "", err
	}
	defer closeQuietly(f)
	return sumFile(f, src.Size, nil)
}
