package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// incomingDir holds content that another store sends, until it is whole: <blobs>/incoming/<name>.
// What a crash leaves there the next attempt overwrites.
const incomingDir = "incoming"

// Receive implements blob.Store: written beside the contents, synced, and renamed to its place. One
// call at a time receives a name.
func (s *Store) Receive(ctx context.Context, name string, body blob.Body) (_ blob.Part, err error) {
	path, err := s.d.blobPath(name)
	if err != nil {
		return blob.Part{}, fmt.Errorf("receive %q: no name for content", name)
	}
	if _, err := s.Stat(ctx, name); !drive.IsKind(err, drive.NotFound) {
		return blob.Part{}, fmt.Errorf("receive: %w", errors.Join(err, errThere))
	}
	dir := filepath.Join(s.d.root, incomingDir)
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return blob.Part{}, fmt.Errorf("receive: %w", classify(err))
	}
	temp := filepath.Join(dir, name)
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return blob.Part{}, fmt.Errorf("receive: %w", classify(err))
	}
	buf := s.d.buffers.takeSmall()
	defer s.d.buffers.giveSmall(buf)
	part, _, err := s.fill(ctx, f, body, buf)
	if err == nil {
		err = syncData(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.d.makeShard(path)
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = s.d.syncShard(filepath.Dir(path))
	} else {
		_ = os.Remove(temp) // the next attempt overwrites it
	}
	if err == nil {
		err = s.d.inPlace()
	}
	if err != nil {
		return blob.Part{}, fmt.Errorf("receive: %w", classify(err))
	}
	return part, nil
}
