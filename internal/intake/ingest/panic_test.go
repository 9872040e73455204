package ingest

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// brittle is a store whose objects panic on reading while broken is set.
type brittle struct {
	blob.Store
	broken atomic.Bool
}

// brittleObject is an object of a brittle store.
type brittleObject struct {
	blob.Object
	store *brittle
}

// Open implements blob.Store.
func (b *brittle) Open(ctx context.Context, name string) (blob.Object, error) {
	o, err := b.Store.Open(ctx, name)
	return brittleObject{o, b}, err
}

// ReadAt implements io.ReaderAt.
func (o brittleObject) ReadAt(p []byte, off int64) (int, error) {
	if o.store.broken.Load() {
		panic("a defect")
	}
	return o.Object.ReadAt(p, off)
}

// TestAPanicOfAnEmbeddedFileEndsItsRequest checks that a panic during extraction becomes the error
// of the request, although it happens in another goroutine.
func TestAPanicOfAnEmbeddedFileEndsItsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := &brittle{Store: w.store}
	in := w.process(w.db, "1", func(o *Options) { o.Store = store })
	table := enclosed{"hours.csv", "text/csv", []byte("a;b\n1;2\n")}
	w.send(t, newParcel("acme").add("a.xml", 1, enclose(t, invoicetest.UBL, doc("A-1", 5), table)))
	w.finish(t, in)
	var id drive.DocumentID
	if err := w.db.QueryRow(t.Context(), "SELECT id FROM documents").Scan(&id); err != nil {
		t.Fatal(err)
	}
	store.broken.Store(true)
	if _, err := EnclosedOf(in).Open(t.Context(), w.who.Account, id, table.sum()); err == nil || !strings.Contains(err.Error(), "a defect") {
		t.Errorf("the panic is told as %v", err)
	}
	store.broken.Store(false)
	a, err := EnclosedOf(in).Open(t.Context(), w.who.Account, id, table.sum())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(a); err != nil || string(got) != string(table.content) {
		t.Errorf("%q: %v", got, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
