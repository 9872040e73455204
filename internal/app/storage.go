package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/local"
)

// storage is where the bytes are: a directory of this machine, or a bucket.
type storage struct {
	store      blob.Store
	staging    blob.Staging
	quarantine blob.Quarantine
	close      func() error
}

// marks is the place beside the bytes where the mark of the installation is kept.
type marks interface {
	fmt.Stringer // how people call it
	ReadMark(ctx context.Context) (m blob.Mark, found bool, err error)
	WriteMark(ctx context.Context, m blob.Mark) error
	// Occupied reports whether there are contents or staged uploads.
	Occupied(ctx context.Context) (bool, error)
}

// directory keeps the mark in a directory of this machine.
type directory string

func (d directory) String() string { return string(d) }

// ReadMark implements marks.
func (d directory) ReadMark(context.Context) (blob.Mark, bool, error) {
	return local.ReadMark(string(d))
}

// WriteMark implements marks.
func (d directory) WriteMark(_ context.Context, m blob.Mark) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("make the blob directory: %w", err)
	}
	return local.WriteMark(string(d), m)
}

// Occupied implements marks.
func (d directory) Occupied(context.Context) (bool, error) {
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

// openDirectory opens the contents in a directory, once it is known that they belong to the
// database.
func (g *ground) openDirectory(ctx context.Context) error {
	dir, err := local.Open(ctx, local.Options{Dir: g.cfg.Blobs, Durability: durability(g.cfg), Log: g.log})
	if err != nil {
		return err
	}
	g.bytes = storage{store: dir.Blobs, staging: dir.Staging, quarantine: dir.Quarantine, close: dir.Close}
	return nil
}
