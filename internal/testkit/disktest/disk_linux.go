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

// size is that of a disk; only what is written of it takes room.
const size = 64 << 20

// New makes and mounts one, with blocks of so many bytes, until the test ends. Only root can, with
// loop devices and mkfs.ext4; otherwise the test is skipped.
func New(t testing.TB, block string) *Disk {
	t.Helper()
	d := &Disk{image: filepath.Join(t.TempDir(), "image"), Root: t.TempDir()}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, size); err != nil {
		t.Fatal(err)
	}
	command(t, "mkfs.ext4", "-q", "-F", "-b", block, "-O", "has_journal", d.image)
	d.mount(t)
	t.Cleanup(func() { d.Unmount(t) })
	return d
}

func (d *Disk) mount(t testing.TB) {
	t.Helper()
	command(t, "mount", "-o", "loop", d.image, d.Root)
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
	command(t, "cp", "--sparse=always", d.image, after.image)
	after.mount(t)
	return after
}

func command(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		servicetest.Missing(t, "loop", fmt.Sprintf("%s %s: %v %s", name, strings.Join(args, " "), err, out))
	}
}
