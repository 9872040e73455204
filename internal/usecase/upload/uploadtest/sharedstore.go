package uploadtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// SharedStore is the blob.Store of a Shared.
type SharedStore struct{ *Shared }

var _ blob.Store = SharedStore{}

// Put implements blob.Store.
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

// ReserveName implements blob.Store.
func (s SharedStore) ReserveName(own string, _ drive.ByteSize) string { return own }

// PutUnsynced implements blob.Store.
func (s SharedStore) PutUnsynced(ctx context.Context, name string, body blob.Body, _ bool) (blob.Part, error) {
	return s.Put(ctx, name, body)
}

// Sync implements blob.Store.
func (s SharedStore) Sync(context.Context, []string) error { return nil }

type sharedObject struct{ *bytes.Reader }

func (o sharedObject) Close() error         { return nil }
func (o sharedObject) Size() drive.ByteSize { return drive.ByteSize(o.Reader.Size()) }

// Open implements blob.Store.
func (s SharedStore) Open(_ context.Context, name string) (blob.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.objects[name]
	if !ok {
		return nil, drive.Fail(drive.NotFound)
	}
	return sharedObject{bytes.NewReader(data)}, nil
}

// Stat implements blob.Store.
func (s SharedStore) Stat(ctx context.Context, name string) (drive.ByteSize, error) {
	o, err := s.Open(ctx, name)
	if err != nil {
		return 0, err
	}
	return o.Size(), nil
}

// Remove implements blob.Store.
func (s SharedStore) Remove(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
	return nil
}

// Caps implements blob.Store.
func (s SharedStore) Caps() blob.StoreCaps { return blob.StoreCaps{} }

// Free implements blob.Store.
func (s SharedStore) Free(context.Context) (drive.ByteSize, error) { return 0, errors.ErrUnsupported }

// Presign implements blob.Store.
func (s SharedStore) Presign(context.Context, string, blob.Link) (string, error) {
	return "", errors.ErrUnsupported
}

// PutAtomic implements blob.Store.
func (s SharedStore) PutAtomic(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	return s.Put(ctx, name, body)
}

// Reclaim implements blob.Store.
func (s SharedStore) Reclaim(ctx context.Context, names []string) ([]string, error) {
	return s.RemoveAll(ctx, names)
}

// RemoveAll implements blob.Store.
func (s SharedStore) RemoveAll(ctx context.Context, names []string) ([]string, error) {
	return blob.RemoveEach(ctx, names, s.Remove)
}

// ListPage implements blob.Store: this store has no shards.
func (s SharedStore) ListPage(context.Context, string, string, int) ([]blob.Entry, bool, error) {
	return nil, false, nil
}

// ListUnsharded implements blob.Store.
func (s SharedStore) ListUnsharded(ctx context.Context, fn func(blob.Entry) error) error {
	return s.List(ctx, fn)
}

// List implements blob.Store.
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

// Quarantine implements blob.Store.
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
