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

// debian unpacks Debian packages and their libraries into the cache and returns the directory. It
// installs nothing, does not change the system's package lists and needs no privileges.
func (t *Tools) debian(ctx context.Context, name string, packages ...string) (string, error) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		return "", errors.New("not on PATH, and no Debian to take it from")
	}
	release, err := codename()
	if err != nil {
		return "", err
	}
	return t.cached(name+"-"+release+"-"+runtime.GOARCH, func(dir string) error {
		return unpackDebs(ctx, dir, packages)
	})
}

// unpackDebs downloads packages with their libraries and unpacks them into dir.
func unpackDebs(ctx context.Context, dir string, packages []string) error {
	work, err := os.MkdirTemp(dir, "debs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := download(ctx, nil, work, packages); err != nil {
		// The system's package lists are missing or outdated: use our own.
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

// update downloads package lists to work and returns the apt options that use them.
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

// download downloads the packages and their libraries into dir.
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

// skippedLibraries lists libraries that every Debian has, or that only installation scripts use.
var skippedLibraries = []string{"libc6", "libc-bin", "libpam", "libperl", "libdebian-installer", "libsemanage", "libtextwrap", "libnewt", "libselinux", "libaudit"}

// libraries returns the libraries that the packages depend on.
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
		if plain && !slices.ContainsFunc(skippedLibraries, func(no string) bool { return strings.HasPrefix(name, no) }) {
			libs = append(libs, name)
		}
	}
	slices.Sort(libs)
	return slices.Compact(libs), nil
}

// apt returns a command of apt with the options.
func apt(ctx context.Context, tool string, options []string, args ...string) *exec.Cmd {
	all := append([]string{"-q", "-o", "APT::Sandbox::User="}, options...)
	cmd := exec.CommandContext(ctx, tool, append(all, args...)...) // fixed arguments
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return cmd
}

// codename returns the code name of the Debian release.
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
	return "unnamed", nil // Debian unstable
}

// unpacked returns a program of unpacked packages that finds its libraries.
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
