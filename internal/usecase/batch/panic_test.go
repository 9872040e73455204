package batch_test

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// panicker panics at its n-th call.
type panicker struct{ left atomic.Int64 }

func (b *panicker) set(n int64) { b.left.Store(n) }

func (b *panicker) step() {
	if b.left.Add(-1) == 0 {
		panic("broken")
	}
}

type breakingStore struct {
	blob.Store
	far         bool
	lay, settle *panicker
}

func (s breakingStore) Caps() blob.StoreCaps {
	c := s.Store.Caps()
	c.HighLatency = c.HighLatency || s.far
	return c
}

func (s breakingStore) PutUnsynced(ctx context.Context, name string, body blob.Body, many bool) (blob.Part, error) {
	s.lay.step()
	return s.Store.PutUnsynced(ctx, name, body, many)
}

func (s breakingStore) Sync(ctx context.Context, names []string) error {
	s.settle.step()
	return s.Store.Sync(ctx, names)
}

// A panic anywhere in a batch ends that batch with an error. The process, other batches and a
// repeat continue.
func TestPanicEndsOnlyItsBatch(t *testing.T) {
	t.Parallel()
	for _, far := range []bool{false, true} {
		for _, where := range []string{"next", "lay", "settle", "tell", "committed"} {
			t.Run(fmt.Sprint(where, far), func(t *testing.T) {
				t.Parallel()
				at := map[string]*panicker{}
				for _, name := range []string{"next", "lay", "settle", "tell", "committed"} {
					at[name] = &panicker{}
				}
				opt := uploadtest.Options{Store: func(s blob.Store) blob.Store { return breakingStore{s, far, at["lay"], at["settle"]} }}
				opt.Upload = upload.Options{CheckInstance: func(_ context.Context, tx *sqldb.Tx) error {
					tx.AfterCommit(at["committed"].step)
					return nil
				}}
				f := newFixture(t, drive.GiB, opt)
				key := f.key(t, "k")
				send := func(key idem.Request, prefix string) (answers []string, err error) {
					from := &list{step: at["next"].step}
					for i := range 12 {
						from.items = append(from.items, request{op: batch.Put, path: fmt.Sprintf("/%s%d", prefix, i), content: fmt.Sprint(prefix, i), conflict: drive.ConflictFail}.item(t, i))
					}
					err = f.batches.Run(t.Context(), f.who, key, from, func(all []batch.Answer) error {
						at["tell"].step()
						for _, a := range all {
							answers = append(answers, fmt.Sprint(a.N, a.Err))
						}
						return nil
					})
					return answers, err
				}
				at[where].set(1)
				if where == "next" || where == "lay" {
					at[where].set(7)
				}
				if _, err := send(key, "a"); !drive.IsKind(err, drive.Internal) {
					t.Errorf("the batch ends with %v", err)
				}
				var whole []string
				for i := range 12 {
					whole = append(whole, fmt.Sprint(i, error(nil)))
				}
				for _, again := range []string{"a", "b"} {
					k := key
					if again == "b" {
						k = idem.Request{}
					}
					got, err := send(k, again)
					if diff := cmp.Diff(whole, got); diff != "" || err != nil {
						t.Errorf("%s after the panic: %v\n%s", again, err, diff)
					}
				}
				if n := len(f.tree(t)); n != 24 {
					t.Errorf("%d files are there, want 24", n)
				}
				f.CheckLedger(t, f.who)
				if left := f.CheckBlobs(t); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

// A panic after the COMMIT of a group keeps the committed files.
func TestPanicAfterCommitKeepsFiles(t *testing.T) {
	t.Parallel()
	var after panicker
	f := newFixture(t, drive.GiB, uploadtest.Options{Upload: upload.Options{CheckInstance: func(_ context.Context, tx *sqldb.Tx) error {
		tx.AfterCommit(after.step)
		return nil
	}}})
	var stored []*upload.PendingPut
	for i := range 3 {
		p := upload.PutFile{Path: uploadtest.Path(t, fmt.Sprintf("/%d", i)), Size: 1}
		in, err := f.StoreFile(t.Context(), f.who, p, io.LimitReader(zeros{}, 1))
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, in)
	}
	after.set(1)
	f.Publish(t.Context(), stored...)
	for i, in := range stored {
		if _, _, err := in.Result(); err != nil {
			t.Errorf("file %d: %v", i, err)
		}
	}
	if n := len(f.tree(t)); n != 3 {
		t.Errorf("%d files are there, want 3", n)
	}
	f.CheckLedger(t, f.who)
	f.CheckBlobs(t)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
