package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Tools finds and downloads the programs of services. Use Open.
type Tools struct {
	cache  string
	report func(string) // reports downloads; nil: nothing is downloaded
}

// Checkout returns the nearest directory with go.mod, from the working directory upwards.
func Checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the checkout")
		}
		dir = filepath.Dir(dir)
	}
}

// Open returns Tools that take programs from PATH or the cache. If say is not nil, missing programs
// are downloaded to the cache, and each download is reported to say.
//
// The cache is SMARTDRIVE_SERVICES_CACHE, else smartdrive-services in the user's cache directory,
// which several checkouts share, else a directory in the checkout, for users without a home.
func Open(checkout string, say func(string)) *Tools {
	cache := filepath.Join(checkout, ".services", "cache")
	if dir := os.Getenv("SMARTDRIVE_SERVICES_CACHE"); dir != "" {
		cache = dir
	} else if home, err := os.UserCacheDir(); err == nil {
		shared := filepath.Join(home, "smartdrive-services")
		if os.MkdirAll(shared, 0o700) == nil {
			cache = shared
		}
	}
	return &Tools{cache: cache, report: say}
}

// program is an executable, possibly unpacked outside of its usual directories.
type program struct {
	path string
	root string   // directory of the unpacked packages; empty for a program on PATH
	env  []string // added to the environment
}

// command returns a command that runs the program.
func (p program) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.path, args...) // services outlive their starter; the path is from lookPath
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

// lookPath finds one of the names on PATH or in the directories of daemons, which are not on a
// user's PATH.
func lookPath(names ...string) (string, bool) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
		for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, true
			}
		}
	}
	return "", false
}

// versionNumber matches the first two numbers of a version.
var versionNumber = regexp.MustCompile(`(\d+)\.(\d+)`)

// atLeast runs the program with flag to get its version ("8.0.36", "10.11", "17.0.2"), and returns
// an error if it is older than major.minor.
func (p program) atLeast(ctx context.Context, major, minor int, flag string) error {
	cmd := exec.CommandContext(ctx, p.path, flag) //nolint:gosec // see command
	cmd.Env = append(os.Environ(), p.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w", p.path, flag, err)
	}
	found := versionNumber.FindStringSubmatch(string(out))
	if found == nil {
		return fmt.Errorf("%s %s says no version", p.path, flag)
	}
	a, _ := strconv.Atoi(found[1]) // digits
	b, _ := strconv.Atoi(found[2])
	if a < major || a == major && b < minor {
		return fmt.Errorf("%s is %s, and %d.%d is needed", p.path, found[0], major, minor)
	}
	return nil
}

// errNotFetched reports a program that may not be downloaded.
var errNotFetched = errors.New("not on PATH and not in the cache (\"make services\" fetches it)")

// cached returns a directory of the cache and, on first use, fills it with fill. The directory is
// complete or does not exist; concurrent processes wait for one to fill it.
func (t *Tools) cached(name string, fill func(dir string) error) (string, error) {
	final := filepath.Join(t.cache, name)
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	if t.report == nil {
		return "", errNotFetched
	}
	if err := os.MkdirAll(t.cache, 0o700); err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	guard, err := os.OpenFile(final+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer guard.Close()
	if err := waitLock(guard); err != nil {
		return "", err
	}
	if _, err := os.Stat(final); err == nil {
		return final, nil // filled by another process meanwhile
	}
	t.report("fetch " + name)
	return final, fillOnce(final, fill)
}

// fillOnce fills a temporary directory and renames it to final.
func fillOnce(final string, fill func(dir string) error) error {
	partial := final + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.Mkdir(partial, 0o700); err != nil {
		return err
	}
	if err := fill(partial); err != nil {
		return err
	}
	return os.Rename(partial, final)
}

// output runs a command and returns its output. The error contains the last line of the output.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[:min(len(cmd.Args), 3)], " "), err, lastLine(string(out)))
	}
	return string(out), nil
}
