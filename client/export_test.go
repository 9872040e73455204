package client

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/client/clienttest"
)

// A zip download that breaks repeatedly completes without requesting a byte twice, and its progress
// never decreases.
func TestGetExportResumes(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	api := newClient(t, s)
	s.Store("/docs/big.pdf", randomBytes(1, 300_000), mtime)
	folder, err := api.NodeAt(t.Context(), "/docs")
	if err != nil {
		t.Fatal(err)
	}
	made, err := api.CreateExport(t.Context(), NewExport{Folder: folder.ID})
	if err != nil {
		t.Fatal(err)
	}
	x, err := api.Export(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.Inject(func(r *http.Request) clienttest.Fault {
		if strings.HasSuffix(r.URL.Path, "/content") {
			return clienttest.CutReply // after 70,000 bytes
		}
		return clienttest.None
	})
	to := filepath.Join(t.TempDir(), "x.zip")
	var last Event
	err = api.GetExport(t.Context(), x, to, func(ev Event) {
		if ev.Bytes < last.Bytes || ev.Total != x.Size || ev.Path != "docs.zip" {
			t.Errorf("after %+v comes %+v", last, ev)
		}
		last = ev
	})
	if err != nil {
		t.Fatal(err)
	}
	if last.State != StateReceived || last.Bytes != x.Size {
		t.Errorf("the last event is %+v", last)
	}
	got, err := os.ReadFile(to)
	if err != nil || int64(len(got)) != x.Size {
		t.Errorf("%d bytes of %d: %v", len(got), x.Size, err)
	}
	if tag := `"` + clienttest.DigestOf(got) + `"`; tag != x.ETag {
		t.Error("it is another zip")
	}
	asked := s.CountRequests(func(_, path string) bool { return strings.HasSuffix(path, "/content") })
	if want := len(got)/70_000 + 1; asked != want {
		t.Errorf("it took %d requests, not %d", asked, want)
	}
}
