package system_test

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // reads the database directly

	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/system/rig"
)

// furnished is an installation with separate blobs, after two starts and a clean stop. It has a
// file and an upload with one part.
type furnished struct {
	*rig.Site
	blobs  string
	upload rig.Upload
}

var kept = history.Content{Seed: 7, Size: 2*rig.MiB + 5}

func furnish(t *testing.T) *furnished {
	t.Helper()
	f := &furnished{blobs: filepath.Join(rig.Dir(t), "blobs")}
	f.Site = rig.New(t, "--blobs", f.blobs)
	f.Start(t).End(t)
	s := f.Start(t)
	u := s.NewUser(t, "ann", 50*rig.MiB)
	u.Put(t, "/kept", kept)
	u.Put(t, "/small", history.Content{Seed: 8, Size: 100})
	f.upload = u.Begin(t, "/half", history.Content{Seed: 9, Size: 3 * rig.MiB})
	f.upload.Send(t, 1)
	s.End(t)
	return f
}

// works starts the installation and checks that all content is there.
func (f *furnished) works(t *testing.T) {
	t.Helper()
	s := f.Start(t)
	up := f.upload.At(s)
	up.Holds(t, "/kept", kept)
	up.Send(t, 0, 1, 2)
	up.Complete(t)
	up.Holds(t, "/half", up.Content)
	s.End(t)
}

// refused checks that serve and admin refuse with those words, and that the blobs stay unchanged.
func (f *furnished) refused(t *testing.T, words ...string) {
	t.Helper()
	before := listing(t, f.blobs)
	f.Refused(t, words...)
	if r := f.Admin(t, "", "user", "ls", "--blobs", f.blobs); r.Code != 1 {
		t.Errorf("admin is not refused: %s", r)
	} else {
		r.Says(t, words...)
	}
	if diff := cmp.Diff(before, listing(t, f.blobs)); diff != "" {
		t.Errorf("the refusal changed the blobs:\n%s", diff)
	}
}

// listing returns the hashes of all files below a directory, and its directories.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		what := d.Type().String()
		if d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what = hashed(b)
		}
		all[path] = what
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return all
}

func hashed(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// copyDatabase copies the database of a stopped server, without the socket and the lock file.
func copyDatabase(t *testing.T, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "smartdrive.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal("there is no database", err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(f)), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnOldDatabaseBesideNewerBlobsIsRefused(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	old := rig.Dir(t)
	copyDatabase(t, f.Data, old)
	s := f.Start(t)
	f.upload.User.At(s).Put(t, "/newer", history.Content{Seed: 10, Size: 1000}) // the old database does not know these bytes
	s.End(t)
	now := f.Data
	f.Data = filepath.Join(rig.Dir(t), "data")
	copyDatabase(t, old, f.Data)
	f.refused(t, "do not belong together", "older copy", "Nothing was changed", "admin restore")
	f.Data = now
	f.works(t)
}

func TestOldBlobsBesideANewerDatabaseAreRefused(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	now := f.blobs + ".now"
	copyDir(t, f.blobs, now)
	old := f.blobs + ".old"
	copyDir(t, f.blobs, old)
	f.Start(t).End(t)
	f.Start(t).End(t)
	move(t, f.blobs, now+"er")
	move(t, old, f.blobs)
	f.refused(t, "do not belong together", "older copy")
	move(t, f.blobs, old)
	move(t, now+"er", f.blobs)
	f.works(t)
}

func TestAnEmptyDatabaseBesideBlobsIsRefused(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	now := f.Data
	f.Data = filepath.Join(rig.Dir(t), "data")
	f.refused(t, "the database is empty", f.blobs, "admin restore")

	// Even without the mark in the blobs, a new installation is refused over them.
	mark := filepath.Join(f.blobs, "installation")
	move(t, mark, f.blobs+".mark")
	f.refused(t, "the database is empty", "without a mark")
	move(t, f.blobs+".mark", mark)
	f.Data = now
	f.works(t)
}

// TestAnEmptyDatabaseBesideStagedUploadsIsRefused: staged uploads count as data as well, because a
// new installation would delete them.
func TestAnEmptyDatabaseBesideStagedUploadsIsRefused(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	f.Data = filepath.Join(rig.Dir(t), "data")
	for _, gone := range []string{"installation", "blobs"} {
		if err := os.RemoveAll(filepath.Join(f.blobs, gone)); err != nil {
			t.Fatal(err)
		}
	}
	f.refused(t, "the database is empty", "without a mark")
}

func TestBlobsOfAnotherInstallationAreRefused(t *testing.T) {
	t.Parallel()
	f, other := furnish(t), furnish(t)
	own := f.blobs + ".own"
	move(t, f.blobs, own)
	copyDir(t, other.blobs, f.blobs)
	f.refused(t, "do not belong together", "installation")
	if err := os.RemoveAll(f.blobs); err != nil {
		t.Fatal(err)
	}
	move(t, own, f.blobs)
	f.works(t)
}

// TestMissingBlobsAreRefused: an empty or missing directory may be an unmounted file system.
func TestMissingBlobsAreRefused(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	mounted := f.blobs + ".mounted"
	move(t, f.blobs, mounted)
	f.refused(t, "not mounted", f.blobs)
	if _, err := os.Stat(f.blobs); !os.IsNotExist(err) {
		t.Errorf("it was made: %v", err)
	}
	if err := os.Mkdir(f.blobs, 0o755); err != nil {
		t.Fatal(err)
	}
	f.refused(t, "not mounted", f.blobs)
	if err := os.Remove(f.blobs); err != nil {
		t.Fatal(err)
	}
	move(t, mounted, f.blobs)
	f.works(t)
}

// TestStartsThatFailOnTheMarkDoNotSpoilTheNext: if writing the mark fails, even repeatedly, the
// next start still recognizes the directory.
func TestStartsThatFailOnTheMarkDoNotSpoilTheNext(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	inTheWay := filepath.Join(f.blobs, "installation.new") // the temporary name of a new mark
	if err := os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.Refused(t, "installation mark")
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	f.works(t)
}

func TestASecondServerIsRefusedWithThePIDOfTheFirst(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	s := f.Start(t)
	f.Refused(t, "in use", strconv.Itoa(s.PID()))
	f.upload.User.At(s).Holds(t, "/kept", kept)
	s.Kill() // its lock file and socket stay
	if _, err := os.Stat(filepath.Join(f.Data, "admin.sock")); err != nil {
		t.Error(err)
	}
	f.works(t)
}

// TestStaleLockFileIsIgnored: without the lock itself, the process id in a lock file
// is ignored, even if a process with this id is running.
func TestStaleLockFileIsIgnored(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	if err := os.WriteFile(filepath.Join(f.Data, "lock"), fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	f.works(t)
}

func TestADatabaseOfANewerReleaseIsRefused(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	query(t, f.Data, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	f.refused(t, "format 999", "newer release")
	query(t, f.Data, `DELETE FROM goose_db_version WHERE version_id = 999`)
	f.works(t)
}

// TestADatabaseOfADevelopmentVersionIsRefused: a database of a version before 0.1.0 stays as it is,
// unless it is of the last one.
func TestADatabaseOfADevelopmentVersionIsRefused(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	query(t, f.Data, `UPDATE goose_db_version SET version_id = 118 WHERE version_id > 0`)
	file := filepath.Join(f.Data, "smartdrive.db")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f.refused(t, "format 118", "development version before 0.1.0", "Nothing was changed")
	if r := f.Admin(t, "", "status"); r.Code != 1 {
		t.Errorf("admin status is not refused: %s", r)
	} else {
		r.Says(t, "format 118")
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the refusal changed the database: %v", err)
	}
	query(t, f.Data, `UPDATE goose_db_version SET version_id = 119 WHERE version_id > 0`)
	f.works(t)
}

// query modifies the database of a stopped server.
func query(t *testing.T, data, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, "smartdrive.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestAnAddressInUseIsRefusedWithItsFlag(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := f.Run(t, "", "serve", "--blobs", f.blobs, "--listen", l.Addr().String())
	if r.Code != 1 || r.Out != "" {
		t.Error(r)
	}
	r.Says(t, "--listen", l.Addr().String())
	f.works(t)
}

func TestUnwritableDataDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := rig.Dir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	site := &rig.Site{Data: filepath.Join(file, "data")} // even root cannot create a directory in a file
	site.Refused(t, "data directory "+site.Data)
	if os.Geteuid() == 0 {
		return // root may write everywhere
	}
	site.Data = filepath.Join(dir, "data")
	if err := os.Mkdir(site.Data, 0o500); err != nil {
		t.Fatal(err)
	}
	site.Refused(t, site.Data)
}

// TestACleanStopLeavesOneDatabaseFile: people who copy the database expect one file.
func TestACleanStopLeavesOneDatabaseFile(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	files, err := filepath.Glob(filepath.Join(f.Data, "smartdrive.db*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 {
		t.Errorf("there are %s", strings.Join(files, ", "))
	}
}
