package fsck_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// unlink deletes released files whose grace period is over.
func (r *rig) unlink(t *testing.T) {
	t.Helper()
	if _, err := r.DeleteDue(t.Context()); err != nil {
		t.Error(err)
	}
}

// hooks runs functions between two steps, each once. They are set after the site was created.
type hooks struct {
	mu     sync.Mutex
	at     map[string]func()
	listed []blob.Entry // contents before a hook
}

func (h *hooks) has(step string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at[step] != nil
}

func (h *hooks) on(step string, fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at = map[string]func(){}
	}
	h.at[step] = fn
}

func (h *hooks) run(step string) {
	h.mu.Lock()
	fn := h.at[step]
	delete(h.at, step)
	h.mu.Unlock()
	if fn != nil {
		fn()
	}
}

type staging struct {
	blob.Staging
	*hooks
}

func (s staging) Create(ctx context.Context, ref blob.Ref) error {
	err := s.Staging.Create(ctx, ref)
	s.run("created")
	return err
}

func (s staging) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	s.run("before the seal")
	err := s.Staging.Seal(ctx, ref, size)
	s.run("sealed")
	return err
}

func (s staging) Load(ctx context.Context, ref blob.Ref) (blob.Staged, error) {
	s.run("before the load")
	return s.Staging.Load(ctx, ref)
}

func (s staging) Unseal(ctx context.Context, ref blob.Ref) error {
	err := s.Staging.Unseal(ctx, ref)
	s.run("unsealed")
	return err
}

func (s staging) Remove(ctx context.Context, ref blob.Ref) error {
	s.run("before the removal")
	err := s.Staging.Remove(ctx, ref)
	s.run("removed")
	return err
}

// ListStaged returns the listing after the hook, which so runs between the listing and the first
// row read.
func (s staging) ListStaged(ctx context.Context, fn func(blob.Entry) error) error {
	return later(s.hooks, "staging listed", fn, func(fn func(blob.Entry) error) error { return s.Staging.ListStaged(ctx, fn) })
}

type store struct {
	blob.Store
	*hooks
}

func (s store) Put(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	p, err := s.Store.Put(ctx, name, body)
	s.run("stored")
	return p, err
}

func (s store) Stat(ctx context.Context, name string) (drive.ByteSize, error) {
	s.run("before the stat")
	return s.Store.Stat(ctx, name)
}

func (s store) Remove(ctx context.Context, name string) error {
	err := s.Store.Remove(ctx, name)
	s.run("unlinked")
	return err
}

func (s store) RemoveAll(ctx context.Context, names []string) ([]string, error) {
	return blob.RemoveEach(ctx, names, s.Remove)
}

func (s store) Reclaim(ctx context.Context, names []string) ([]string, error) {
	return s.RemoveAll(ctx, names)
}

// ListUnsharded implements blob.Store. If a hook runs after the list, all pages show the state
// before it.
func (s store) ListUnsharded(ctx context.Context, fn func(blob.Entry) error) error {
	s.listed = nil
	if s.has("files listed") {
		for _, shard := range blob.Shards() {
			page, _, err := s.Store.ListPage(ctx, shard, "", blob.MaxPage)
			if err != nil {
				return err
			}
			s.listed = append(s.listed, page...)
		}
	}
	return later(s.hooks, "files listed", fn, func(fn func(blob.Entry) error) error { return s.Store.ListUnsharded(ctx, fn) })
}

// ListPage implements blob.Store.
func (s store) ListPage(ctx context.Context, shard, after string, limit int) (page []blob.Entry, more bool, err error) {
	s.run("before a page")
	if s.listed == nil {
		return s.Store.ListPage(ctx, shard, after, limit)
	}
	for _, e := range s.listed {
		if e.Path > after && strings.HasPrefix(e.Path, blob.ShardPath(shard, "")) {
			page = append(page, e)
		}
	}
	return page, false, nil
}

func later(h *hooks, step string, fn func(blob.Entry) error, list func(func(blob.Entry) error) error) error {
	var all []blob.Entry
	if err := list(func(s blob.Entry) error { all = append(all, s); return nil }); err != nil {
		return err
	}
	h.run(step)
	for _, s := range all {
		if err := fn(s); err != nil {
			return err
		}
	}
	return nil
}

// hooked returns a rig whose uploads and auditor have hooks.
func hooked(t *testing.T) (r *rig, uploads, audits *hooks) {
	t.Helper()
	uploads, audits = &hooks{}, &hooks{}
	r = newRig(t, uploadtest.Options{
		Staging: func(s blob.Staging) blob.Staging { return staging{s, uploads} },
		Store:   func(s blob.Store) blob.Store { return store{s, uploads} },
	})
	r.audit = fsck.New(fsck.Dependencies{
		DB: r.DB, Staging: staging{r.Local.Staging, audits}, Store: store{r.Local.Blobs, audits}, Content: r.Content,
		Timers: engine{r.Queue}, IsWriting: r.IsWriting, Generation: generation,
	}, fsck.Options{Now: r.Clock.Now, Log: slog.New(slog.DiscardHandler), Sleep: func(context.Context, time.Duration) error {
		audits.run("second look")
		return nil
	}})
	return r, uploads, audits
}

// wantNothing runs a repairing pass that must find nothing.
func (r *rig) wantNothing(t *testing.T) {
	t.Helper()
	report, err := r.audit.Check(context.Background(), fsck.Scope{Repair: true})
	if err != nil {
		t.Error(err)
	}
	for _, f := range report.Findings {
		t.Errorf("found %s %s: %s | %s (repaired %v)", f.Invariant, f.Subject, f.Expected, f.Found, f.Repaired)
	}
}

// A repairing pass in the middle of each step of an upload finds nothing, and the upload succeeds.
func TestPassDuringUpload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step string
		do   func(t *testing.T, r *rig)
	}{
		{"created", func(t *testing.T, r *rig) { r.upload(t, "/c") }},
		{"before the seal", func(t *testing.T, r *rig) { r.upload(t, "/c") }},
		{"sealed", func(t *testing.T, r *rig) { r.upload(t, "/c") }},
		{"removed", func(t *testing.T, r *rig) { r.upload(t, "/c") }},
		{"stored", func(t *testing.T, r *rig) { r.put(t, "/c", r.data[:2<<20]) }},
		{"unsealed", func(t *testing.T, r *rig) {
			v := r.Start(t, r.who, "/c", 5<<20)
			r.SendAll(t, r.who, v, r.data)
			r.mkdirAt(t, r.hooksOf, "sealed", "/c")
			if _, _, err := r.Complete(t.Context(), r.who, v.ID, upload.Complete{}); !drive.IsKind(err, drive.NameTaken) {
				t.Fatalf("complete onto a name that was taken: %v", err)
			}
			if _, _, err := r.Complete(t.Context(), r.who, v.ID, upload.Complete{Name: "d"}); err != nil {
				t.Fatal(err)
			}
		}},
		{"before the removal", func(t *testing.T, r *rig) {
			v := r.Start(t, r.who, "/c", 5<<20)
			r.send(t, v, 0)
			if err := r.Cancel(t.Context(), r.who, v.ID); err != nil {
				t.Fatal(err)
			}
		}},
		{"unlinked", func(t *testing.T, r *rig) {
			r.put(t, "/c", []byte("a small file")) // the same as /b: its own file is released
			r.Clock.Advance(time.Hour)
			r.unlink(t)
		}},
	} {
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			r, uploads, _ := hooked(t)
			r.hooksOf = uploads
			ran := false
			uploads.on(c.step, func() {
				ran = true
				r.wantNothing(t)
			})
			c.do(t, r)
			if !ran {
				t.Fatal("the moment never came")
			}
			r.wantNothing(t)
			r.wantClean(t)
		})
	}
}

func (r *rig) upload(t *testing.T, path string) {
	t.Helper()
	v := r.Start(t, r.who, path, 5<<20)
	data := random(5 << 20)
	data[0] ^= 0xff // other content than /a
	r.SendAll(t, r.who, v, data)
	r.complete(t, v)
	if string(r.Read(t, r.who, path)) != string(data) {
		t.Errorf("%s has other bytes", path)
	}
}

// mkdirAt creates a folder at a later step.
func (r *rig) mkdirAt(t *testing.T, h *hooks, step, path string) {
	h.on(step, func() { r.put(t, path, []byte("taken")) })
}

// An upload ends between the listing of a pass and the rows it reads, or between its two looks.
func TestUploadDuringPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, step string
		before, do func(t *testing.T, r *rig)
	}{
		{"an upload seals", "staging listed", nil, sealActive},
		{"an upload seals", "files listed", nil, sealActive},
		{"an upload seals", "before a page", nil, sealActive},
		{"a file is stored", "files listed", nil, func(t *testing.T, r *rig) { r.put(t, "/c", []byte("other bytes")) }},
		{"an upload begins", "staging listed", nil, func(t *testing.T, r *rig) { r.send(t, r.Start(t, r.who, "/c", 5<<20), 0) }},
		{"an upload is cancelled", "staging listed", nil, cancelParked},
		{"an upload is cancelled", "before a page", nil, cancelParked},
		{"an upload is taken up again", "staging listed", nil, func(t *testing.T, r *rig) { r.send(t, r.parked, 0) }},
		{"a released file is unlinked", "files listed", func(t *testing.T, r *rig) {
			r.put(t, "/c", []byte("a small file"))
			r.Clock.Advance(time.Hour)
		}, func(t *testing.T, r *rig) {
			r.unlink(t)
		}},
		{"a blob is replaced and its file unlinked", "before a page", nil, func(t *testing.T, r *rig) {
			for range 7 { // /b and its versions: five are kept
				r.put(t, "/b", fmt.Appendf(nil, "version %d", time.Now().UnixNano()))
				r.Clock.Advance(31 * 24 * time.Hour)
			}
			r.unlink(t)
		}},
		{"a timer is armed late", "second look", func(t *testing.T, r *rig) {
			key := timer.Key{Kind: timer.Park, ID: r.active.ID}
			if err := r.Queue.Cancel(t.Context(), key, 100); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, r *rig) {
			if err := r.Recover(t.Context()); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(c.name+", "+c.step, func(t *testing.T) {
			t.Parallel()
			r, _, audits := hooked(t)
			if c.before != nil {
				c.before(t, r)
			}
			ran := false
			audits.on(c.step, func() {
				ran = true
				c.do(t, r)
			})
			r.wantNothing(t)
			if !ran {
				t.Fatal("the moment never came")
			}
			r.wantClean(t)
		})
	}
}

func sealActive(t *testing.T, r *rig) {
	r.SendAll(t, r.who, r.active, r.data)
	r.complete(t, r.active)
}

func cancelParked(t *testing.T, r *rig) {
	if err := r.Cancel(t.Context(), r.who, r.parked.ID); err != nil {
		t.Error(err)
	}
}

// A suspect ends regularly during the second look: its rows are read once more.
func TestChangeDuringSecondLook(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, remove, query string
		do                  func(t *testing.T, r *rig)
	}{
		{"before the load", "staging/2026/11/20/", `SELECT id FROM uploads WHERE state = 'parked'`, cancelParked},
		{"before the stat", "blobs/", `SELECT file FROM blobs WHERE size = 12`, func(t *testing.T, r *rig) {
			for i := range 7 {
				r.put(t, "/b", fmt.Appendf(nil, "version %d", i))
				r.Clock.Advance(31 * 24 * time.Hour)
			}
		}},
	} {
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			r, _, audits := hooked(t)
			name := r.scalar(t, c.query)
			if c.remove == "blobs/" {
				name = name[len(name)-2:] + "/" + name
			}
			if err := os.RemoveAll(filepath.Join(r.Dir, c.remove, name)); err != nil {
				t.Fatal(err)
			}
			audits.on("second look", func() { audits.on(c.step, func() { c.do(t, r) }) })
			if found, _ := r.check(t, fsck.Scope{}); len(found) != 0 {
				t.Errorf("found %v", found)
			}
		})
	}
}

// A repair verifies the defect in its own transaction, so concurrent changes are not lost.
func TestRepairRecounts(t *testing.T) {
	t.Parallel()
	r, _, _ := hooked(t)
	r.spoil(t, `UPDATE ledgers SET finished = 1; UPDATE blobs SET refs = 9 WHERE size = 12; UPDATE trees SET node_count = 1`)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				r.put(t, fmt.Sprintf("/busy-%d", i), fmt.Appendf(nil, "content %d", i%3))
			}
		}
	}()
	report, err := r.audit.Check(t.Context(), fsck.Scope{Repair: true})
	close(stop)
	<-done
	if err != nil || report.Total != 3 || report.Repaired != 3 {
		t.Errorf("%+v, %v", report, err)
	}
	r.wantClean(t)
}

// Repairing passes run beside uploads, replacements, cancellations and reads without effect. The
// second look follows at once here, so a pass may delete what an upload is about to delete (P4),
// which is harmless.
func TestPassOnBusyServer(t *testing.T) {
	t.Parallel()
	r, _, _ := hooked(t)
	stop := make(chan struct{})
	var passes sync.WaitGroup
	passes.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			report, err := r.audit.Check(context.Background(), fsck.Scope{Repair: true})
			if err != nil {
				t.Error(err)
			}
			for _, f := range report.Findings {
				if f.Invariant != "P4" || !f.Repaired {
					t.Errorf("found %+v", f)
				}
			}
		}
	})
	var people sync.WaitGroup
	for n := range 3 {
		people.Go(func() { r.beBusy(t, n) })
	}
	people.Wait()
	close(stop)
	passes.Wait()
	r.wantNothing(t)
	r.wantClean(t)
}

func (r *rig) beBusy(t *testing.T, n int) {
	for i := range 8 {
		path := fmt.Sprintf("/of-%d", n)
		text := strings.Repeat(fmt.Sprintf("%d %d ", n, i%3), 1000)
		r.put(t, path, []byte(text))
		if got := string(r.Read(t, r.who, path)); got != text {
			t.Errorf("%s has other bytes", path)
		}
		data := random(3<<20 + n*100 + i)
		v := r.Start(t, r.who, fmt.Sprintf("/big-%d-%d", n, i), drive.ByteSize(len(data)))
		if i%2 == 0 {
			r.SendAll(t, r.who, v, data)
			r.complete(t, v)
			continue
		}
		if err := r.Send(t, r.who, v, 0, data); err != nil {
			t.Error(err)
		}
		if err := r.Put(t.Context(), r.who, v.ID, upload.PutPart{N: 1, Size: v.PartSize}, io.LimitReader(strings.NewReader("torn"), 4)); err == nil {
			t.Error("a torn part was accepted")
		}
		if err := r.Cancel(t.Context(), r.who, v.ID); err != nil {
			t.Error(err)
		}
	}
}
