package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// incomingDir holds content that is being received from another store: <blobs>/incoming/<name>. The
// next attempt overwrites files left by a crash.
const incomingDir = "incoming"

// PutAtomic stores content that rows already refer to: it writes a temporary file, syncs it and
// renames it to its place. At most one call at a time may receive a name.
func (s *Store) PutAtomic(ctx context.Context, name string, body blob.Body) (_ blob.Part, err error) {
	path, err := s.d.blobPath(name)
	if err != nil {
		return blob.Part{}, fmt.Errorf("receive %q: no name for content", name)
	}
	if _, err := s.Stat(ctx, name); !drive.IsKind(err, drive.NotFound) {
		return blob.Part{}, fmt.Errorf("receive: %w", errors.Join(err, errExists))
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
	buf := s.d.buffers.getSmall()
	defer s.d.buffers.putSmall(buf)
	part, _, err := s.writeBody(ctx, f, body, buf)
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
		_ = os.Remove(temp) // on failure the next attempt overwrites it
	}
	if err == nil {
		err = s.d.checkMounted()
	}
	if err != nil {
		return blob.Part{}, fmt.Errorf("receive: %w", classify(err))
	}
	return part, nil
}
