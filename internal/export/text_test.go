package export

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

func listsOf(t *testing.T, w *world) (n int64, rows int) {
	t.Helper()
	if err := w.db.QueryRow(t.Context(), "SELECT COALESCE(SUM(size), 0), COUNT(*) FROM export_texts").Scan(&n, &rows); err != nil {
		t.Fatal(err)
	}
	return n, rows
}

// The lists of an account stay within their limit; lists of ended batches are deleted first.
func TestListTextPerAccountIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "/in/file", "content")
	e := w.process(w.db, "a")
	create := func() (View, error) {
		return e.Create(t.Context(), w.who, Request{Name: "all", Manifest: []Item{{Path: "/in/file"}}}, nil)
	}
	first, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if n, rows := listsOf(t, w); n < rowTextBytes || rows != 1 {
		t.Fatalf("%d bytes in %d lists are written down", n, rows)
	}
	err = w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { // as if it were as large as permitted
		_, err := tx.Exec(ctx, "UPDATE export_texts SET size = ?", maxTexts)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := create(); !drive.IsKind(err, drive.TooLarge) {
		t.Fatalf("another list: %v", err)
	}
	var left int
	if err := w.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM export_wants").Scan(&left); err != nil || left != 1 {
		t.Errorf("%d rows of lists after a refusal, %v", left, err)
	}
	if err := e.Cancel(t.Context(), w.who, first.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := create(); err != nil {
		t.Fatalf("when the first batch has ended: %v", err)
	}
	if n, rows := listsOf(t, w); n >= maxTexts || rows != 1 {
		t.Errorf("%d bytes in %d lists are written down", n, rows)
	}
}

// Bodies read concurrently stay within the memory limit; small ones always fit.
func TestIncomingLimitsMemory(t *testing.T) {
	t.Parallel()
	e := New(Options{Clock: func(context.Context) (drive.Time, error) { return start, nil }})
	one, other := e.LimitBody(io.LimitReader(zeros{}, bodyMemory)), e.LimitBody(zeros{})
	if n, err := io.Copy(io.Discard, one); err != nil || n != bodyMemory {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if _, err := io.Copy(io.Discard, other); !drive.IsKind(err, drive.Unavailable) || !drive.IsKind(other.Err(), drive.Unavailable) {
		t.Fatalf("a second list beside it: %v", err)
	}
	other.Close()
	small := e.LimitBody(strings.NewReader(strings.Repeat("x", int(uncountedBody))))
	if n, err := io.Copy(io.Discard, small); err != nil || n != uncountedBody {
		t.Errorf("a small list: %d bytes, %v", n, err)
	}
	one.Close()
	again := e.LimitBody(io.LimitReader(zeros{}, bodyMemory))
	if _, err := io.Copy(io.Discard, again); errors.Join(err, again.Err()) != nil {
		t.Errorf("when there is room: %v", err)
	}
	again.Close()
	small.Close()
	if n := e.reading.Load(); n != 0 {
		t.Errorf("%d bytes are not given back", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// In a zip, a name that ends with a slash is a folder, which has no content.
func TestManifestRefusesFolderNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a/", "/", "a//"} {
		if _, err := ReadManifest(strings.NewReader(`{"path":"/f","name":"`+name+`"}`), 10); name != "/" && !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%q: %v", name, err)
		}
	}
	w := newWorld(t)
	e := w.process(w.db, "one")
	w.put(t, "/f", "text")
	v := w.create(t, e, Request{Manifest: []Item{{Path: "/f", Name: "a"}, {Path: "/f", Name: "b"}}})
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error { // a list from before such names were refused
		_, err := tx.Exec(ctx, "UPDATE export_wants SET name = CASE name WHEN 'a' THEN 'dir/' ELSE '/' END")
		return err
	})
	w.finish(t, e)
	if _, files := w.download(t, e, v.ID); files["export/dir"] != "text" || len(files) != 2 {
		t.Errorf("%q", files)
	}
}

func TestEmptyManifestIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"path,name\n", "path", "\ufeffid,url\r\n"} {
		_, err := ReadManifest(strings.NewReader(text), 10)
		bad, _ := errors.AsType[*drive.Error](err)
		if bad == nil || bad.Kind != drive.BadRequest || bad.Args["field"] != "manifest" || bad.Args["expected"] != "a list that is not empty" {
			t.Errorf("%q: %v", text, err)
		}
	}
}
