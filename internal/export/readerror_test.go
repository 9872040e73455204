package export

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// refusingStore refuses one content, and all contents during an outage.
type refusingStore struct {
	absentStore
	file *atomic.Pointer[string]
}

// Open implements blob.Store.
func (r refusingStore) Open(ctx context.Context, name string) (blob.Object, error) {
	if file := r.file.Load(); file != nil && *file == name {
		return nil, drive.Fail(drive.Unavailable)
	}
	return r.absentStore.Open(ctx, name)
}

// embeddedDocuments are documents with a file embedded in a content of the store.
type embeddedDocuments struct {
	fakeDocuments
	store blob.Store
	file  string
}

// Embedded implements Documents.
func (k embeddedDocuments) Embedded(ctx context.Context, account drive.AccountID, id, sum string) (io.ReadCloser, drive.ByteSize, error) {
	if id == "1" {
		obj, err := k.store.Open(ctx, k.file)
		if err != nil {
			return nil, 0, err
		}
		if err := obj.Close(); err != nil {
			return nil, 0, err
		}
	}
	return k.fakeDocuments.Embedded(ctx, account, id, sum)
}

// A content that the store refuses is not retried for ever: tries back off, other entries arrive,
// and finally the entry is a line of err.txt. An outage of the store does not count.
func TestUnreadableContentFailsEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.fileOf(t, w.put(t, "/intake/acme/b/a.xml", "the invoice"))
	var away atomic.Bool
	var refused atomic.Pointer[string]
	store := refusingStore{absentStore{w.store, &away}, &refused}
	docs := embeddedDocuments{fakeDocuments{map[string][]Document{"acme 2026-10": {
		{ID: "1", Number: "A/1", Date: "2026-10-05", Embedded: "abc"}, {ID: "2", Number: "A/2", Date: "2026-10-06", Embedded: "def"},
	}}}, store, file}
	e := w.process(w.db, "1", func(o *Options) { o.Store, o.Documents = store, docs })
	in := Request{Folder: w.folder(t, "/intake/acme"), Filter: Filter{Documents: true, Month: "2026-10"}}

	v := w.create(t, e, in)
	away.Store(true)
	for range maxTries + 1 {
		w.finish(t, e)
		w.advance(waitForStores)
	}
	if n := w.count(t, "SELECT tries FROM exports"); n != 0 {
		t.Errorf("%d tries were counted while the store was away", n)
	}
	away.Store(false)
	refused.Store(&file)
	for try := range int64(maxTries) {
		w.finish(t, e)
		if got := w.get(t, e, v.ID); got.State != Pending || got.Error != reasonUnreadable || got.Collected != 1 {
			t.Fatalf("after %d tries it is %s with %d: %s", try+1, got.State, got.Collected, got.Error)
		}
		if wait := w.count(t, "SELECT due_at FROM exports") - w.clock.Load(); wait != retryDelay(try).Milliseconds() {
			t.Errorf("after %d tries it waits %d ms", try+1, wait)
		}
		w.advance(retryDelay(try))
	}
	w.finish(t, e)
	if got := w.get(t, e, v.ID); got.State != Sealed || got.Collected != 1 || got.Failed != 1 {
		t.Fatalf("in the end it is %s with %d and %d: %s", got.State, got.Collected, got.Failed, got.Error)
	}
	if _, files := w.download(t, e, v.ID); !strings.Contains(files["err.txt"], "\n1\t2026-10-05 A-1\tunreadable\r\n") {
		t.Errorf("the zip has %q", files)
	}

	refused.Store(nil)
	more, err := e.Supplement(t.Context(), w.who, v.ID, SupplementRequest{Mode: WithPrevious}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.finish(t, e)
	if got := w.get(t, e, more.ID); got.State != Sealed || got.Collected != 2 {
		t.Errorf("with the content again it is %s with %d", got.State, got.Collected)
	}
	w.check(t)
}

// A job with a content that the store refuses fails after its tries and deletes the parts it has
// written.
func TestUnreadableContentFailsJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.fileOf(t, w.put(t, "/in/a.pdf", text(1)))
	var away atomic.Bool
	var refused atomic.Pointer[string]
	s := &memoryDrive{uploads: map[drive.UploadID]*memoryUpload{}, puts: map[string]int{}}
	e := w.process(w.db, "a", func(o *Options) { o.Store, o.Drive = refusingStore{absentStore{w.store, &away}, &refused}, s })
	v := w.create(t, e, Request{Folder: w.folder(t, "/in")})
	w.finish(t, e)
	if _, err := e.Materialise(t.Context(), w.who, v.ID, w.root, ""); err != nil {
		t.Fatal(err)
	}
	try := func() time.Duration {
		doJob(t, e)
		wait := w.count(t, "SELECT due_at FROM export_jobs") - w.clock.Load()
		w.advance(time.Duration(wait) * time.Millisecond)
		return time.Duration(wait) * time.Millisecond
	}
	away.Store(true)
	for range maxTries + 1 {
		try()
	}
	if n := w.count(t, "SELECT tries FROM export_jobs WHERE state = 'pending'"); n != 0 {
		t.Errorf("%d tries were counted while the store was away", n)
	}
	away.Store(false)
	refused.Store(&file)
	if waits, want := [maxTries]time.Duration{try(), try(), try()}, [maxTries]time.Duration{retryDelay(0), retryDelay(1), retryDelay(2)}; waits != want {
		t.Errorf("it waits %v", waits)
	}
	doJob(t, e)
	if n := w.count(t, "SELECT COUNT(*) FROM export_jobs WHERE state = 'failed' AND error = 'unreadable'"); n != 1 || len(s.uploads) != 0 {
		t.Errorf("%d jobs have failed, and %d uploads are left", n, len(s.uploads))
	}

	refused.Store(nil)
	if _, err := e.Materialise(t.Context(), w.who, v.ID, w.root, ""); err != nil {
		t.Fatal(err)
	}
	doJob(t, e)
	if n := w.count(t, "SELECT COUNT(*) FROM export_jobs WHERE state = 'done'"); n != 1 {
		t.Error("with the content again the job is not done")
	}
	w.check(t)
}
