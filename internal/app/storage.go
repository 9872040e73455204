package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/local"
)

// storage holds the stores of bytes: a directory of this machine, or a bucket.
type storage struct {
	store      blob.Store
	staging    blob.Staging
	quarantine blob.Quarantine
	close      func() error
}

// markStore reads and writes the mark of the installation beside its contents.
type markStore interface {
	fmt.Stringer // name for people
	ReadMark(ctx context.Context) (m blob.Mark, found bool, err error)
	WriteMark(ctx context.Context, m blob.Mark) error
	// Occupied reports whether there are contents or staged uploads.
	Occupied(ctx context.Context) (bool, error)
}

// directoryMarks keeps the mark in a directory of this machine.
type directoryMarks string

func (d directoryMarks) String() string { return string(d) }

// ReadMark returns the mark of the directory; false if it has none.
func (d directoryMarks) ReadMark(context.Context) (blob.Mark, bool, error) {
	return local.ReadMark(string(d))
}

// WriteMark replaces the mark, creating the directory if needed.
func (d directoryMarks) WriteMark(_ context.Context, m blob.Mark) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("make the blob directory: %w", err)
	}
	return local.WriteMark(string(d), m)
}

// Occupied reports whether the directory contains a blob or a staged part. A directory that is
// missing or cannot be read is not occupied.
func (d directoryMarks) Occupied(context.Context) (bool, error) {
	for _, pattern := range []string{"blobs/*/*", "staging/*/*/*/*"} {
		found, err := filepath.Glob(filepath.Join(string(d), filepath.FromSlash(pattern)))
		if err != nil {
			return false, fmt.Errorf("look for blobs: %w", err)
		}
		if len(found) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// openDirectory opens the contents in a directory, after their owner was checked. It sets p.storage
// and fails with the error of local.Open.
func (p *platform) openDirectory(ctx context.Context) error {
	dir, err := local.Open(ctx, local.Options{Dir: p.cfg.Blobs, Durability: durability(p.cfg), Log: p.log})
	if err != nil {
		return err
	}
	p.storage = storage{store: dir.Blobs, staging: dir.Staging, quarantine: dir.Quarantine, close: dir.Close}
	return nil
}
