package disktest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"example.org/smartdrive/internal/testkit/servicetest"
)

// Disk is an ext4 file system with a journal in an image file. Data that the kernel has written to
// the image survives a power failure; data in memory is lost.
type Disk struct {
	Root  string // mount point
	image string
}

// Size is the size of the image in bytes, including the file system's own data. The image is
// sparse.
const Size = 64 << 20

// New creates and mounts a disk with the given block size, until the test ends. It requires root,
// loop devices and mkfs.ext4; otherwise it skips the test.
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

// Unmount unmounts the disk at once. The end of the test does so for a disk of New.
func (d *Disk) Unmount(t testing.TB) {
	t.Helper()
	if err := syscall.Unmount(d.Root, syscall.MNT_DETACH); err != nil {
		t.Errorf("unmount: %v", err)
	}
}

// CutPower returns the disk as it would be after a power failure now, mounted elsewhere; the kernel
// replays the journal. The caller unmounts it.
func (d *Disk) CutPower(t testing.TB) *Disk {
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
