// Command release writes everything that a release consists of into a directory: archives with a
// static binary for each platform, Debian, RPM and Alpine packages, container images, the Helm
// chart, the release notes, a bill of materials, checksums and their signature. It needs Go and git
// and no Docker. It is a module of its own, so that the product does not depend on what it needs.
//
// Two runs for one commit with one Go version write the same bytes, wherever and whenever they run:
// times are those of the commit, or SOURCE_DATE_EPOCH.
//
//	make release VERSION=0.1.0
//	go run -C scripts/release . -version 0.1.0 -platforms linux/amd64
//
// SMARTDRIVE_MINISIGN_KEY holds the secret key of minisign, or SMARTDRIVE_MINISIGN_KEY_FILE names
// its file, and SMARTDRIVE_MINISIGN_PASSWORD its password. Without a key nothing is signed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &release{}
	var out, platforms string
	flag.StringVar(&r.version, "version", "", "version of the release, such as 0.1.0 or 0.2.0-rc.1")
	flag.StringVar(&out, "out", "dist", "directory of the results, relative to the checkout; an earlier release there is replaced")
	flag.StringVar(&platforms, "platforms", strings.Join(allPlatforms, ","), "what to build for, as GOOS/GOARCH; linux/arm is ARMv7")
	flag.BoolVar(&r.dirty, "dirty", false, "build although files differ from the commit; for trying out")
	flag.BoolVar(&r.pgo, "pgo", true, "optimize by cmd/smartdrive/serve.pgo; without it a build is faster and the binary slower")
	flag.Parse()
	r.platforms = strings.Split(platforms, ",")
	if err := r.run(ctx, out); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// allPlatforms are the platforms of a release. Packages are made of those with linux, images of
// linux/amd64 and linux/arm64.
var allPlatforms = []string{"linux/amd64", "linux/arm64", "linux/arm", "linux/riscv64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

// release is one run of the command.
type release struct {
	version    string // without a leading v
	platforms  []string
	dirty, pgo bool

	root   string    // the checkout
	module string    // path of the product's module
	commit string    // with "+dirty" if files differ from it
	date   time.Time // of the commit: the time of everything that has one
	work   string    // directory of intermediate files
	dist   string    // directory of results, renamed to its final name at the end
}

// semver matches the versions that all kinds of packages can express.
var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

// run writes the release into the directory out, which keeps its old state if a step fails.
func (r *release) run(ctx context.Context, out string) (err error) {
	if err := r.identify(ctx); err != nil {
		return err
	}
	if !filepath.IsAbs(out) {
		out = filepath.Join(r.root, out)
	}
	if err := replaceable(out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp(filepath.Dir(out), ".release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	r.dist = filepath.Join(r.work, "dist")
	if err := os.Mkdir(r.dist, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"release notes", r.writeNotes}, // first: the only step that a person may have to prepare
		{"manual pages and completions", r.generate},
		{"binaries and archives", r.buildAll},
		{"packages", r.writePackages},
		{"images", r.writeImages},
		{"Helm chart", r.writeChart},
		{"bill of materials", r.writeSBOM},
		{"checksums", r.writeSums},
		{"signature", r.sign},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Printf("%6.1f s  %s\n", time.Since(began).Seconds(), step.what)
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.Rename(r.dist, out); err != nil {
		return err
	}
	fmt.Printf("smartdrive %s, commit %s, is in %s\n", r.version, r.commit, out)
	return nil
}

// replaceable fails unless the directory is missing, empty or an earlier release.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, sumsFile)); err != nil {
		return fmt.Errorf("%s is not empty and is no earlier release: remove it, or choose another directory with -out", dir)
	}
	return nil
}

// identify sets the checkout, its module, commit and date. It fails for a version or platform that
// cannot be released, and for a checkout with uncommitted changes unless r.dirty.
func (r *release) identify(ctx context.Context) error {
	r.version = strings.TrimPrefix(r.version, "v")
	if !semver.MatchString(r.version) {
		return fmt.Errorf("-version %q is no version such as 0.1.0 or 0.2.0-rc.1", r.version)
	}
	for _, p := range r.platforms {
		if !slices.Contains(allPlatforms, p) {
			return fmt.Errorf("-platforms: %q is none of %s", p, strings.Join(allPlatforms, ", "))
		}
	}
	var err error
	if r.root, err = output(ctx, ".", "git", "rev-parse", "--show-toplevel"); err != nil {
		return err
	}
	if r.module, err = output(ctx, r.root, "go", "list", "-m"); err != nil {
		return err
	}
	if r.commit, err = output(ctx, r.root, "git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	changed, err := output(ctx, r.root, "git", "status", "--porcelain")
	switch {
	case err != nil:
		return err
	case changed != "" && !r.dirty:
		return fmt.Errorf("files differ from commit %s; commit them, or use -dirty to try out:\n%s", r.commit, changed)
	case changed != "":
		r.commit += "+dirty"
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = output(ctx, r.root, "git", "log", "-1", "--format=%ct"); err != nil {
			return err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.date = time.Unix(seconds, 0).UTC()
	return nil
}

// output runs a command in a directory and returns its standard output without white space around
// it.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
