package ingest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// ailing is a store on a disk that has errors now and then.
type ailing struct {
	blob.Store
	ill atomic.Bool
}

type ailingObject struct {
	blob.Object
	store *ailing
}

func (s *ailing) Open(ctx context.Context, name string) (blob.Object, error) {
	o, err := s.Store.Open(ctx, name)
	return ailingObject{o, s}, err
}

func (o ailingObject) ReadAt(p []byte, off int64) (int, error) {
	if o.store.ill.Load() {
		return 0, errors.New("input/output error")
	}
	return o.Object.ReadAt(p, off)
}

// A disk that gives errors for an hour rejects no bundle, wherever its worker meets them.
func TestAnErrorOfTheDiskRejectsNoBundle(t *testing.T) {
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

// wantState looks at the state alone.
func wantState(t *testing.T, b Bundle, want State) {
	t.Helper()
	if b.State != want {
		t.Errorf("the bundle is %s %s", b.State, sums(b))
	}
}

// What cannot be read and is then marked as damaged, as by fsck, ends the bundle once its wait is
// over, whatever of it that is, and however far the bundle has come. Sound again, it is taken in.
func TestWhatIsFoundDamagedEndsItsBundle(t *testing.T) {
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
