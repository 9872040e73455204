package ingest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// ailing is a store whose reads fail while ill is set.
type ailing struct {
	blob.Store
	ill atomic.Bool
}

// ailingObject is an object of an ailing store.
type ailingObject struct {
	blob.Object
	store *ailing
}

// Open implements blob.Store.
func (s *ailing) Open(ctx context.Context, name string) (blob.Object, error) {
	o, err := s.Store.Open(ctx, name)
	return ailingObject{o, s}, err
}

// ReadAt implements io.ReaderAt.
func (o ailingObject) ReadAt(p []byte, off int64) (int, error) {
	if o.store.ill.Load() {
		return 0, errors.New("input/output error")
	}
	return o.Object.ReadAt(p, off)
}

// TestDiskErrorRejectsNoBundle checks that an hour of disk errors, at any step of a worker,
// rejects no bundle.
func TestDiskErrorRejectsNoBundle(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"", "compared", "checked"} {
		t.Run("at "+step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			store := &ailing{Store: w.store}
			in := w.process(w.db, "1", func(o *Options) { o.Store = store })
			p := newParcel("acme").lines("a.ndjson", docs("A", 2)...).lines("b.ndjson", docs("B", 3)...)
			w.send(t, p)
			store.ill.Store(step == "")
			in.halt = func(at string) {
				if at == step {
					store.ill.Store(true)
				}
			}
			for range 12 {
				w.finish(t, in)
				w.pass(5 * time.Minute)
			}
			wantState(t, w.bundle(t, p), Sealed)
			in.halt = func(string) {}
			store.ill.Store(false)
			w.finish(t, in)
			wantSums(t, w.bundle(t, p), "done 5=5+0+0+0")
			w.check(t)
		})
	}
}

// wantState compares the state of a bundle.
func wantState(t *testing.T, b Bundle, want State) {
	t.Helper()
	if b.State != want {
		t.Errorf("the bundle is %s %s", b.State, sums(b))
	}
}

// TestDamageEndsItsBundle checks that content marked as damaged, as by fsck, rejects
// the bundle after its wait, at any step of a worker. If the mark is removed, a retry succeeds.
func TestDamageEndsItsBundle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ step, blobs, want string }{
		{"", "SELECT v.blob_id FROM bundles b JOIN versions v ON v.id = b.meta_version", "rejected damaged 0=0+0+0+0"},
		{"compared", "SELECT blob_id FROM bundle_members WHERE name = 'a.ndjson'", "rejected damaged 5=0+5+0+0"},
		{"checked", "SELECT blob_id FROM bundle_members WHERE name = 'a.ndjson'", "rejected damaged 5=0+5+0+0"},
	} {
		t.Run("at "+c.step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			store := &ailing{Store: w.store}
			in := w.process(w.db, "1", func(o *Options) { o.Store = store })
			p := newParcel("acme").lines("a.ndjson", docs("A", 2)...).lines("b.ndjson", docs("B", 3)...)
			w.send(t, p)
			store.ill.Store(c.step == "")
			in.halt = func(at string) {
				if at == c.step {
					store.ill.Store(true)
				}
			}
			pass := func() {
				for range 12 {
					w.finish(t, in)
					w.pass(5 * time.Minute)
				}
			}
			pass()
			wantState(t, w.bundle(t, p), Sealed)
			mark := func(at int) {
				w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
					_, err := tx.Exec(ctx, "UPDATE blobs SET damaged_at = ? WHERE id IN ("+c.blobs+")", at)
					return err
				})
			}
			mark(1)
			pass()
			b := w.bundle(t, p)
			wantSums(t, b, c.want)
			mark(0)
			in.halt = func(string) {}
			store.ill.Store(false)
			if _, err := in.Retry(t.Context(), w.who, b.ID); err != nil {
				t.Fatal(err)
			}
			w.finish(t, in)
			wantSums(t, w.bundle(t, p), "done 5=5+0+0+0")
			w.check(t)
		})
	}
}
