package system_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/system/rig"
)

// holdsBytes reports whether any file below a directory has the content.
func holdsBytes(t *testing.T, dir string, c history.Content) bool {
	t.Helper()
	want := hashed(c.Bytes(0, c.Size))
	for _, sum := range listing(t, dir) {
		if sum == want {
			return true
		}
	}
	return false
}

// TestAnOldDatabaseIsAcceptedByRestore: the refusal of an old database names "admin restore". That
// accepts the database and deletes nothing unexplained; the state ends once fsck has moved that
// away.
func TestAnOldDatabaseIsAcceptedByRestore(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	old := rig.Dir(t)
	copyDatabase(t, f.Data, old)
	newer := history.Content{Seed: 10, Size: 54321}
	s := f.Start(t)
	u := f.upload.User.At(s)
	u.Put(t, "/newer", newer)
	id := u.Node(t, "/small")["id"].(string)
	u.Do(t, http.MethodDelete, "/nodes/"+id+"?permanent=true", nil).Is(t, http.StatusNoContent) // its file is kept for the grace period
	s.End(t)
	f.Data = filepath.Join(rig.Dir(t), "data")
	copyDatabase(t, old, f.Data)
	f.refused(t, "admin restore")

	f.Admin(t, "", "restore", "--blobs", f.blobs).OK(t)
	s = f.Start(t)
	u = u.At(s)
	u.Holds(t, "/kept", kept)
	u.Holds(t, "/small", history.Content{Seed: 8, Size: 100}) // deleted after the copy was made
	u.Get(t, "/nodes?path=/newer").Problem(t, http.StatusNotFound, "not-found")
	u.Get(t, "/uploads/"+f.upload.ID).Is(t, http.StatusGone, http.StatusNotFound) // open uploads end
	if l := s.Ledger(t, "ann"); l.Finished != kept.Size+100 || l.Unfinished+l.Reserved != 0 {
		t.Errorf("the ledger is %+v", l)
	}
	if !holdsBytes(t, f.blobs, newer) {
		t.Fatal("what the database cannot explain was deleted")
	}
	u.Put(t, "/after", content(11)) // users continue to work
	if r := f.Admin(t, "", "fsck", "--repair", "--blobs", f.blobs); !strings.Contains(r.Out+r.Err, "54321 bytes") {
		t.Errorf("fsck does not name it: %s", r)
	}
	f.Admin(t, "", "fsck", "--blobs", f.blobs).OK(t)
	s.End(t)
	if !holdsBytes(t, filepath.Join(f.blobs, "quarantine"), newer) {
		t.Error("what the database cannot explain is not in the quarantine")
	}
	s = f.Start(t)
	u = u.At(s)
	u.Holds(t, "/kept", kept)
	u.Holds(t, "/after", content(11))
	f.Admin(t, "", "fsck", "--purge", "--blobs", f.blobs).OK(t)
	s.End(t)
	if holdsBytes(t, f.blobs, newer) {
		t.Error("the quarantine was not purged")
	}
	sound(t, f.Site, "-blobs", f.blobs)
}

// TestBackupOfDamagedInstallationReportsIt: the backup of an installation that has lost a content
// reports so in its exit code and in the status.
func TestBackupOfDamagedInstallationReportsIt(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	s := f.Start(t)
	lost := history.Content{Seed: 21, Size: 100_000}
	f.upload.User.At(s).Put(t, "/lost", lost)
	to := filepath.Join(rig.Dir(t), "backup")
	f.Admin(t, "", "backup", to, "--copy", "--blobs", f.blobs).OK(t)
	for path, sum := range listing(t, filepath.Join(f.blobs, "blobs")) {
		if sum != hashed(lost.Bytes(0, lost.Size)) {
			continue
		}
		if err := os.WriteFile(path, make([]byte, lost.Size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if r := f.Admin(t, "", "backup", to, "--copy", "--verify", "--blobs", f.blobs); r.Code != 7 || !strings.Contains(r.Err, "1 damaged") {
			t.Errorf("a backup of a damaged content: %s", r)
		}
	}
	if r := f.Admin(t, "", "status", "--blobs", f.blobs).OK(t); !strings.Contains(r.Out, "0 missing, 1 damaged") {
		t.Errorf("the status: %s", r)
	}
	s.End(t)
	f.Admin(t, "", "restore", to, "--force", "--blobs", f.blobs).OK(t) // the undamaged content of the first backup
	s = f.Start(t)
	f.upload.User.At(s).Holds(t, "/lost", lost)
	s.End(t)
}

// TestABackupOfARunningServerIsRestored: a backup of a running server, restored elsewhere, has
// every file of that moment.
func TestABackupOfARunningServerIsRestored(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	s := f.Start(t)
	u := f.upload.User.At(s)
	to := filepath.Join(rig.Dir(t), "backup")
	f.Admin(t, "", "backup", to, "--copy", "--blobs", f.blobs).OK(t)
	u.Put(t, "/later", content(12))
	again := f.Admin(t, "", "backup", to, "--copy", "--json", "--blobs", f.blobs).OK(t)
	if strings.Contains(again.Out, `"copied":0`) {
		t.Errorf("the second backup brings nothing: %s", again)
	}
	u.Put(t, "/too-late", content(13))
	s.Kill()
	for _, dir := range []string{f.Data, f.blobs} { // simulate the loss of the disk
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}

	site := rig.New(t)
	site.Admin(t, "", "restore", to).OK(t)
	if r := site.Admin(t, "", "restore", to); r.Code != 1 {
		t.Errorf("a second restore over the first: %s", r)
	}
	s = site.Start(t)
	u = u.At(s)
	u.Holds(t, "/kept", kept)
	u.Holds(t, "/later", content(12))
	u.Get(t, "/nodes?path=/too-late").Problem(t, http.StatusNotFound, "not-found")
	s.End(t)
	site.Admin(t, "", "fsck", "--repair")
	site.Admin(t, "", "fsck").OK(t)
	s = site.Start(t)
	u.At(s).Put(t, "/new", content(14))
	s.End(t)
	sound(t, site)
}
