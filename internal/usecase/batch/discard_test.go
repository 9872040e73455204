package batch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Contents stored ahead of an ended batch are removed in one call, because packs are rewritten per
// call.
func TestEndedBatchRemovesContentsTogether(t *testing.T) {
	t.Parallel()
	const many = 200
	store := &counting{all: make(chan struct{}), laid: many}
	f := newFixture(t, drive.GiB, uploadtest.Options{Store: func(s blob.Store) blob.Store { store.Store = s; return store }})
	from := &list{}
	for i := range many {
		from.items = append(from.items, request{op: batch.Put, path: fmt.Sprintf("/%d", i), content: fmt.Sprint("content ", i)}.item(t, i))
	}
	err := f.batches.Run(t.Context(), f.who, idem.Request{}, from, func([]batch.Answer) error { <-store.all; return errTold })
	if !errors.Is(err, errTold) || store.removals > 2 {
		t.Errorf("%d removals, %v", store.removals, err)
	}
	if left := f.CheckBlobs(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	f.CheckLedger(t, f.who)
}

// counting counts removals and signals when the given number of contents is stored.
type counting struct {
	blob.Store
	mu       sync.Mutex
	laid     int // that are still to come
	removals int
	all      chan struct{}
}

func (s *counting) PutUnsynced(ctx context.Context, name string, body blob.Body, many bool) (blob.Part, error) {
	part, err := s.Store.PutUnsynced(ctx, name, body, many)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.laid--; s.laid == 0 {
		close(s.all)
	}
	return part, err
}

func (s *counting) RemoveAll(ctx context.Context, names []string) ([]string, error) {
	s.mu.Lock()
	s.removals++
	s.mu.Unlock()
	return s.Store.RemoveAll(ctx, names)
}
