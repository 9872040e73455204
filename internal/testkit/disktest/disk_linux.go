package disktest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"smartdrive/internal/testkit/servicetest"
)

// Disk is an ext4 with a journal, in a file. What the kernel has written to the file is what a disk
// has when the power goes; the rest is in memory.
type Disk struct {
	Root  string // where it is mounted
	image string
}

// Size is that of a disk, in bytes, a part of which is the file system's. Only what is written of
// it takes room.
const Size = 64 << 20

// New makes and mounts one, with blocks of so many bytes, until the test ends. Only root can, with
// loop devices and mkfs.ext4; otherwise the test is skipped.
func New(t testing.TB, block string) *Disk {
	t.Helper()
	d := &Disk{image: filepath.Join(t.TempDir(), "image"), Root: t.TempDir()}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, Size); err != nil {
		t.Fatal(err)
	}
	command(t, "mkfs.ext4", "-q", "-F", "-b", block, "-O", "has_journal", d.image)
	command(t, "mount", "-o", "loop", d.image, d.Root)
	t.Cleanup(func() { d.Unmount(t) })
	return d
}

// Unmount takes it out, at once. Of a disk that New made the end of the test does it.
func (d *Disk) Unmount(t testing.TB) {
	t.Helper()
	if err := syscall.Unmount(d.Root, syscall.MNT_DETACH); err != nil {
		t.Errorf("unmount: %v", err)
	}
}

// Cut mounts, elsewhere, what is on the disk when the power goes now: the kernel plays the journal
// back. The caller unmounts it.
func (d *Disk) Cut(t testing.TB) *Disk {
	t.Helper()
	after := &Disk{image: filepath.Join(t.TempDir(), "image"), Root: t.TempDir()}
	for _, args := range [][]string{{"cp", "--sparse=always", d.image, after.image}, {"mount", "-o", "loop", after.image, after.Root}} {
		if err := run(t, args...); err != nil {
			t.Fatal(err)
		}
	}
	return after
}

func command(t testing.TB, args ...string) {
	t.Helper()
	if err := run(t, args...); err != nil {
		servicetest.Missing(t, "loop", err.Error())
	}
}

func run(t testing.TB, args ...string) error {
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w %s", strings.Join(args, " "), err, out)
	}
	return nil
}
