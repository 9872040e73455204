package contents

import (
	"context"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/internal/engine/blob"
)

// removals counts single and batched deletions.
type removals struct {
	blob.Store
	single, together atomic.Int64
}

func (r *removals) Remove(ctx context.Context, name string) error {
	r.single.Add(1)
	return r.Store.Remove(ctx, name)
}

func (r *removals) RemoveAll(ctx context.Context, names []string) ([]string, error) {
	r.together.Add(1)
	return r.Store.RemoveAll(ctx, names)
}

// Contents are deleted a page at a time, because in a bucket each deletion from a pack rewrites the
// pack.
func TestDropDeletesInBatches(t *testing.T) {
	t.Parallel()
	s := leave(t, t.TempDir(), t.TempDir())
	counts := &removals{Store: s.old.Store}
	s.old.Store = counts
	s.drop()
	s.wantLeft(s.old)
	if one, many := counts.single.Load(), counts.together.Load(); one > 0 || many != 2 {
		t.Errorf("%d removals, and %d of many", one, many)
	}
	if s.did.Removed != int64(len(s.files)) || !s.did.Ended {
		t.Errorf("noted: %+v", s.did)
	}
}
