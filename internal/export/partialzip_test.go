package export

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
)

// soFar downloads the zip so far.
func (w *world) soFar(t *testing.T, e *Exports, id drive.ExportID) (d Download, files map[string]string) {
	t.Helper()
	d, err := e.OpenSoFar(t.Context(), w.who, "somebody", id)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, files = served(t, d)
	return d, files
}

// Each entry of a waiting batch is in the zip so far or in its err.txt. For a sealed batch it is
// the sealed zip.
func TestOpenSoFar(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := func(o *Options) {
		o.Fetch.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
		}
	}
	here, there := w.process(w.db, "here", away), w.process(w.db, "there")
	w.finish(t, there) // it polled and found no work
	v := w.create(t, here, w.manifest(t, "in"))
	d, files := w.soFar(t, here, v.ID)
	if len(files) != 1 || strings.Count(files["err.txt"], "\tpending\r\n") != 10 || d.Filename() != "disk-so-far.zip" {
		t.Errorf("before anything has arrived %s has %q", d.Filename(), files)
	}
	w.finish(t, here)
	before, files := w.soFar(t, here, v.ID)
	now := w.get(t, here, v.ID)
	if now.State != Pending || now.Collected != 4 {
		t.Fatalf("it is %s with %d", now.State, now.Collected)
	}
	if diff := cmp.Diff([]string{"disk/store0/x0.pdf", "disk/store0/x2.pdf", "disk/store1/x1.pdf", "disk/store1/x3.pdf", "err.txt"},
		slices.Sorted(maps.Keys(files))); diff != "" {
		t.Error(diff)
	}
	if pending := strings.Count(files["err.txt"], "\tpending\r\n"); int64(pending) != now.Total-now.Collected-now.Failed || pending == 0 {
		t.Errorf("%d are pending: %s", pending, files["err.txt"])
	}
	w.finish(t, there)
	sealed, files := w.soFar(t, there, v.ID)
	whole, err := there.Open(t.Context(), w.who, v.ID)
	if err != nil || sealed.ETag != whole.ETag || sealed.Filename() != "disk.zip" || before.ETag == whole.ETag || strings.Contains(files["err.txt"], "pending") {
		t.Errorf("sealed: %s as %s and %s, before %s: %v", sealed.Filename(), sealed.ETag, whole.ETag, before.ETag, err)
	}
	if err := there.Cancel(t.Context(), w.who, v.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := there.OpenSoFar(t.Context(), w.who, "somebody", v.ID); !drive.IsKind(err, drive.Gone) {
		t.Errorf("of a batch that was ended: %v", err)
	}
	stranger := drive.Who{User: w.who.User, Account: drive.NewID[drive.AccountID]()}
	if _, err := there.OpenSoFar(t.Context(), stranger, "somebody", v.ID); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("of somebody else's: %v", err)
	}
}

// Long paths are accounted for in the memory grant.
func TestOpenSoFarUsesMemoryGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	in := Request{Name: "long"}
	for n := range 2000 {
		in.Manifest = append(in.Manifest, Item{URL: fmt.Sprintf("%s/%d/%s", w.web.URL, n, strings.Repeat("p", 3900)), Name: "x"})
	}
	v := w.create(t, e, in)
	d, err := e.OpenSoFar(t.Context(), w.who, "somebody", v.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if need := directWindow + drive.ByteSize(memoryOf(d.archive)); d.grant.Bytes < need {
		t.Errorf("%d bytes are taken, %d are needed", d.grant.Bytes, need)
	}
}
