package uploadtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// SharedStore is the blob.Store of a Shared.
type SharedStore struct{ *Shared }

var _ blob.Store = SharedStore{}

// Put stores the content of body under name, replacing earlier content. On an error of body nothing
// is stored.
func (s SharedStore) Put(_ context.Context, name string, body blob.Body) (blob.Part, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return blob.Part{}, err
	}
	part, err := body.Finish()
	if err == nil {
		s.mu.Lock()
		s.objects[name] = data
		s.mu.Unlock()
	}
	return part, err
}

// ReserveName always returns own: this store has no packs.
func (s SharedStore) ReserveName(own string, _ drive.ByteSize) string { return own }

// PutUnsynced is Put: the content needs no Sync.
func (s SharedStore) PutUnsynced(ctx context.Context, name string, body blob.Body, _ bool) (blob.Part, error) {
	return s.Put(ctx, name, body)
}

// Sync does nothing, because Put is durable here.
func (s SharedStore) Sync(context.Context, []string) error { return nil }

// sharedObject is open content in memory. A later Put or Remove does not change it.
type sharedObject struct{ *bytes.Reader }

// Close does nothing and returns nil.
func (o sharedObject) Close() error { return nil }

// Size returns the length of the content in bytes.
func (o sharedObject) Size() drive.ByteSize { return drive.ByteSize(o.Reader.Size()) }

// Open opens content for reading. It returns NotFound if there is none of that name.
func (s SharedStore) Open(_ context.Context, name string) (blob.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.objects[name]
	if !ok {
		return nil, drive.Fail(drive.NotFound)
	}
	return sharedObject{bytes.NewReader(data)}, nil
}

// Stat returns the length of content, or NotFound.
func (s SharedStore) Stat(ctx context.Context, name string) (drive.ByteSize, error) {
	o, err := s.Open(ctx, name)
	if err != nil {
		return 0, err
	}
	return o.Size(), nil
}

// Remove deletes content. Missing content is no error.
func (s SharedStore) Remove(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
	return nil
}

// Caps reports that the store has no optional capabilities.
func (s SharedStore) Caps() blob.StoreCaps { return blob.StoreCaps{} }

// Free always returns errors.ErrUnsupported: the free space is unknown.
func (s SharedStore) Free(context.Context) (drive.ByteSize, error) { return 0, errors.ErrUnsupported }

// Presign always returns errors.ErrUnsupported: the store has no URLs.
func (s SharedStore) Presign(context.Context, string, blob.Link) (string, error) {
	return "", errors.ErrUnsupported
}

// PutAtomic stores content under a name, all or nothing.
func (s SharedStore) PutAtomic(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	return s.Put(ctx, name, body)
}

// Reclaim is RemoveAll.
func (s SharedStore) Reclaim(ctx context.Context, names []string) ([]string, error) {
	return s.RemoveAll(ctx, names)
}

// RemoveAll deletes contents with Remove and returns what blob.RemoveEach does.
func (s SharedStore) RemoveAll(ctx context.Context, names []string) ([]string, error) {
	return blob.RemoveEach(ctx, names, s.Remove)
}

// ListPage always returns an empty last page: this store has no shards. List and ListUnsharded
// return its contents.
func (s SharedStore) ListPage(context.Context, string, string, int) ([]blob.Entry, bool, error) {
	return nil, false, nil
}

// ListUnsharded calls fn once for each content, because no content of this store is in a shard. It
// stops at the first error of fn, which it returns.
func (s SharedStore) ListUnsharded(ctx context.Context, fn func(blob.Entry) error) error {
	return s.List(ctx, fn)
}

// List calls fn once for each content, in no order, and stops at the first error of fn, which it
// returns.
func (s SharedStore) List(_ context.Context, fn func(blob.Entry) error) error {
	s.mu.Lock()
	var all []blob.Entry
	for name, b := range s.objects {
		all = append(all, blob.Entry{Path: "blobs/" + name, Name: name, Size: drive.ByteSize(len(b))})
	}
	s.mu.Unlock()
	for _, stray := range all {
		if err := fn(stray); err != nil {
			return err
		}
	}
	return nil
}

// Quarantine records stray in s.kept and removes the content of its name. It never fails.
func (s SharedStore) Quarantine(ctx context.Context, stray blob.Entry) error {
	s.mu.Lock()
	s.kept = append(s.kept, stray)
	s.mu.Unlock()
	return s.Remove(ctx, stray.Name)
}

// Quarantined returns the entries moved to quarantine.
func (s *Shared) Quarantined() []blob.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept)
}
