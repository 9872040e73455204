package services

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// debian unpacks packages of the system's Debian (or of what derives from it), with the libraries
// they need, below the cache. Nothing is installed, and no lists of the system are changed; it
// needs no privileges.
func (t *Tools) debian(ctx context.Context, name string, packages ...string) (string, error) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		return "", errors.New("not on PATH, and no Debian to take it from")
	}
	release, err := codename()
	if err != nil {
		return "", err
	}
	return t.fetched(name+"-"+release+"-"+runtime.GOARCH, func(dir string) error {
		return unpackDebs(ctx, dir, packages)
	})
}

func unpackDebs(ctx context.Context, dir string, packages []string) error {
	work, err := os.MkdirTemp(dir, "debs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := download(ctx, nil, work, packages); err != nil {
		// the system's lists are missing or older than the mirror: take some of our own
		private, err := update(ctx, work)
		if err != nil {
			return err
		}
		if err := download(ctx, private, work, packages); err != nil {
			return err
		}
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if _, err := output(exec.CommandContext(ctx, "dpkg-deb", "-x", deb, dir)); err != nil {
			return err
		}
	}
	return nil
}

// update fetches lists of packages to a directory of our own and returns the options that make apt
// use them.
func update(ctx context.Context, work string) ([]string, error) {
	for _, dir := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o700); err != nil {
			return nil, err
		}
	}
	options := []string{
		"-o", "Dir::State=" + filepath.Join(work, "state"),
		"-o", "Dir::State::status=/var/lib/dpkg/status",
		"-o", "Dir::Cache=" + filepath.Join(work, "cache"),
	}
	_, err := output(apt(ctx, "apt-get", options, "update"))
	return options, err
}

// download gets the packages and the libraries that they depend on.
func download(ctx context.Context, options []string, dir string, packages []string) error {
	libraries, err := libraries(ctx, options, packages)
	if err != nil {
		return err
	}
	cmd := apt(ctx, "apt-get", options, append([]string{"download"}, append(packages, libraries...)...)...)
	cmd.Dir = dir
	_, err = output(cmd)
	return err
}

// notNeeded are libraries that every Debian has, or that only scripts of installation use.
var notNeeded = []string{"libc6", "libc-bin", "libpam", "libperl", "libdebian-installer", "libsemanage", "libtextwrap", "libnewt", "libselinux", "libaudit"}

func libraries(ctx context.Context, options, packages []string) ([]string, error) {
	args := []string{
		"depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances",
	}
	out, err := output(apt(ctx, "apt-cache", options, append(args, packages...)...))
	if err != nil {
		return nil, err
	}
	var libs []string
	for line := range strings.Lines(out) {
		name := strings.TrimSpace(line)
		plain := !strings.HasPrefix(line, " ") && strings.HasPrefix(name, "lib") && !strings.HasSuffix(name, "-perl") && !strings.Contains(name, ":")
		if plain && !slices.ContainsFunc(notNeeded, func(no string) bool { return strings.HasPrefix(name, no) }) {
			libs = append(libs, name)
		}
	}
	slices.Sort(libs)
	return slices.Compact(libs), nil
}

func apt(ctx context.Context, tool string, options []string, args ...string) *exec.Cmd {
	all := append([]string{"-q", "-o", "APT::Sandbox::User="}, options...)
	cmd := exec.CommandContext(ctx, tool, append(all, args...)...) //nolint:gosec // our own words
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return cmd
}

func codename() (string, error) {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("find out which Debian this is: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "VERSION_CODENAME="); ok {
			return strings.Trim(name, `"`), nil
		}
	}
	return "unnamed", nil // Debian's unstable
}

// unpacked is a program of unpacked packages: it finds their libraries first.
func unpacked(root, path string) (program, error) {
	var dirs []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return program{}, err
		}
		dirs = append(dirs, found...)
	}
	p := program{path: filepath.Join(root, path), root: root, env: []string{"LD_LIBRARY_PATH=" + strings.Join(dirs, ":")}}
	_, err := os.Stat(p.path)
	return p, err
}
