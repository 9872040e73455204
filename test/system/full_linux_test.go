package system_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

// disk mounts a file system of the given size for one test.
func disk(t *testing.T, mib int) string {
	t.Helper()
	dir := rig.Dir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=700", mib)); err != nil {
		servicetest.Missing(t, "tmpfs", fmt.Sprintf("a small file system of its own cannot be mounted: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillUp writes to a disk until it is full; calling free releases the space.
func fillUp(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := bytes.Repeat([]byte("x"), 64<<10)
	for len(block) > 0 {
		_, err := f.Write(block)
		switch {
		case errors.Is(err, syscall.ENOSPC):
			block = block[:len(block)/2]
		case err != nil:
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// crowd is a user whose files fill a disk.
type crowd struct {
	rig.User
	kept []int // numbers of the acknowledged files
}

func fileName(n int) string { return fmt.Sprintf("/file-%d", n) }

// putUntilFull stores files until one is refused, and returns the refusal.
func (c *crowd) putUntilFull(t *testing.T) rig.Reply {
	t.Helper()
	for n := len(c.kept); n < 500; n++ {
		r := c.Do(t, http.MethodPut, "/files"+fileName(n), content(n).Bytes(0, rig.MiB))
		if r.StatusCode != http.StatusCreated {
			return r
		}
		c.kept = append(c.kept, n)
	}
	t.Fatal("the disk does not fill up")
	return rig.Reply{}
}

// intact fails the test unless every acknowledged file is there with its content.
func (c *crowd) intact(t *testing.T) {
	t.Helper()
	for _, n := range c.kept {
		c.Holds(t, fileName(n), content(n))
	}
}

// deleteOne permanently deletes the last file.
func (c *crowd) deleteOne(t *testing.T) {
	t.Helper()
	last := c.kept[len(c.kept)-1]
	id := c.Node(t, fileName(last))["id"].(string)
	c.Do(t, http.MethodDelete, "/nodes/"+id+"?permanent=true", nil).Is(t, http.StatusNoContent)
	c.kept = c.kept[:len(c.kept)-1]
}

// isFull fails the test unless r refuses for lack of disk space, with the needed and the available
// bytes.
func isFull(t *testing.T, r rig.Reply) {
	t.Helper()
	doc := r.Problem(t, http.StatusInsufficientStorage, "disk-full")
	for _, arg := range []string{"needed", "available"} {
		if _, ok := doc[arg].(float64); !ok {
			t.Errorf("the problem does not say %q: %s", arg, r)
		}
	}
}

// TestScenarioJADiskThatUploadsFill: new files are refused at --min-free. Requests that free space
// succeed, and afterwards new files do as well.
func TestScenarioJADiskThatUploadsFill(t *testing.T) {
	t.Parallel()
	site := rig.New(t, "--min-free", "1MiB", "--blob-grace", "100ms", "--default-quota", "1TiB")
	site.Data = filepath.Join(disk(t, 64), "data")
	s := site.Start(t)
	c := &crowd{User: s.NewUser(t, "ann", 1<<40)}
	half := c.Begin(t, "/half", history.Content{Seed: 1000, Size: 12 * rig.MiB})
	half.Send(t, 3, 4)
	isFull(t, c.putUntilFull(t))
	isFull(t, c.Post(t, "/uploads", map[string]any{"path": "/more", "size": 100 * rig.MiB}))
	isFull(t, c.Do(t, http.MethodPut, "/files/large", make([]byte, 20*rig.MiB)))
	unknown := bytes.NewReader(make([]byte, 60*rig.MiB))
	c.Do(t, http.MethodPut, "/files/large", unknown).Problem(t, http.StatusInsufficientStorage, "disk-full")
	c.intact(t)

	// The space reserved at begin is still available.
	half.Send(t, 0, 1, 2, 5, 6, 7, 8, 9, 10, 11)
	half.Complete(t)
	c.Holds(t, "/half", half.Content)

	c.deleteOne(t)
	c.deleteOne(t)
	c.comesBack(t, s)
	s.End(t)
	sound(t, site)
}

// comesBack waits until a file of 1 MiB is accepted again.
func (c *crowd) comesBack(t *testing.T, s *rig.Server) {
	t.Helper()
	n := len(c.kept)
	process.Eventually(t, rig.Patience, "uploads work again", func() error {
		if r := c.Do(t, http.MethodPut, "/files"+fileName(n), content(n).Bytes(0, rig.MiB)); r.StatusCode != http.StatusCreated {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	c.kept = append(c.kept, n)
	c.intact(t)
	if l := s.Ledger(t, c.Name); l.Finished < int64(len(c.kept))*rig.MiB || l.Reserved != 0 {
		t.Errorf("the ledger is %+v with %d files", l, len(c.kept))
	}
}

// TestScenarioJADiskThatOthersFill: another program fills the disk with all data while an upload is
// running.
func TestScenarioJADiskThatOthersFill(t *testing.T) {
	t.Parallel()
	root := disk(t, 64)
	site := rig.New(t, "--min-free", "0", "--blob-grace", "0s")
	site.Data = filepath.Join(root, "data")
	s := site.Start(t)
	c := &crowd{User: s.NewUser(t, "ann", 1<<40)}
	for n := range 4 {
		c.Put(t, fileName(n), content(n))
		c.kept = append(c.kept, n)
	}
	up := c.Begin(t, "/upload", history.Content{Seed: 1000, Size: 4 * rig.MiB})
	up.Send(t, 0, 1)
	free := fillUp(t, root)

	up.SendPart(t, 2).Problem(t, http.StatusInsufficientStorage, "disk-full")
	if got := fmt.Sprint(up.View(t)["received"]); got != "[[0 1]]" {
		t.Errorf("the torn part counts: %s", got)
	}
	isFull(t, c.Do(t, http.MethodPut, "/files/more", make([]byte, 1000)))
	isFull(t, c.Post(t, "/uploads", map[string]any{"path": "/more", "size": 1000}))
	c.intact(t)

	// Killed and restarted on the full disk: reads succeed.
	s.Kill()
	s = site.Start(t)
	c.User, up = c.At(s), up.At(s)
	c.intact(t)
	up.Cancel(t)
	c.deleteOne(t)
	c.comesBack(t, s)

	free()
	up = c.Begin(t, "/upload", up.Content)
	up.Send(t, 0, 1, 2, 3)
	up.Complete(t)
	c.Holds(t, "/upload", up.Content)
	s.End(t)
	sound(t, site)
}

// TestScenarioJADatabaseOnAFullDisk: the database's disk is full, the blobs' disk is not.
func TestScenarioJADatabaseOnAFullDisk(t *testing.T) {
	t.Parallel()
	root := disk(t, 40)
	blobs := filepath.Join(rig.Dir(t), "blobs")
	// Resuming a parked upload needs the database, so uploads are not parked while the disk is
	// filled.
	site := rig.New(t, "--min-free", "1MiB", "--blob-grace", "100ms", "--blobs", blobs, "--upload-idle", "1h")
	site.Data = filepath.Join(root, "data")
	s := site.Start(t)
	c := &crowd{User: s.NewUser(t, "ann", 1<<40)}
	for n := range 4 {
		c.Put(t, fileName(n), content(n))
		c.kept = append(c.kept, n)
	}
	up := c.Begin(t, "/upload", history.Content{Seed: 1000, Size: 4 * rig.MiB})
	up.Send(t, 0, 1)
	free := fillUp(t, root)

	// The database's log file may still have free space; after that requests are refused as
	// full.
	refused := 0
	for n := range 3000 {
		r := c.Post(t, "/nodes", map[string]any{"parent": "root", "name": fmt.Sprintf("folder-%d", n), "type": "folder"})
		if r.StatusCode == http.StatusCreated {
			continue
		}
		r.Problem(t, http.StatusInsufficientStorage, "disk-full")
		refused++
		break
	}
	if refused == 0 {
		t.Fatal("the disk is not full")
	}
	up.Send(t, 2) // parts need no database
	c.intact(t)
	c.deleteOne(t) // the ballast file makes room for it
	up.Cancel(t)

	s.Kill()
	s = site.Start(t)
	c.User = c.At(s)
	c.intact(t)
	s.Kill()
	fillUp(t, root) // the ballast file is gone as well
	site.Refused(t, "is full", site.Data)
	free()
	s = site.Start(t)
	c.User = c.At(s)
	c.comesBack(t, s)
	s.End(t)
	sound(t, site, "-blobs", blobs)
}

func TestStagingAndBlobsMustShareAFileSystem(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	site.Start(t).End(t)
	staging := filepath.Join(site.Data, "staging")
	if err := syscall.Mount(disk(t, 1), staging, "", syscall.MS_BIND, ""); err != nil {
		servicetest.Missing(t, "tmpfs", err.Error())
	}
	site.Refused(t, "must be on one file system", site.Data)
	if err := syscall.Unmount(staging, 0); err != nil {
		t.Fatal(err)
	}
	site.Start(t)
}
