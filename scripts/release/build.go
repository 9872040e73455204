package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shells maps the shells that have completions to the names of their files.
var shells = map[string]string{"bash": "smartdrive", "zsh": "_smartdrive", "fish": "smartdrive.fish", "powershell": "smartdrive.ps1"}

// generate writes manual pages into work/man and completions into work/completions.
func (r *release) generate(ctx context.Context) error {
	return r.goCommand(ctx, nil, "run", "-trimpath", "-buildvcs=false", "-tags", "manual", "./cmd/smartdrive", "write-manual", filepath.Join(r.work, "man"), filepath.Join(r.work, "completions"))
}

// goCommand runs the go command in the checkout. Only env and what is fixed here decide what it
// builds, whatever the environment says.
func (r *release) goCommand(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=",
		"GOAMD64=v1", "GOARM64=v8.0", "GOARM=7", "GORISCV64=rva20u64", "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.date.Unix(), 10))
	cmd.Env = append(cmd.Env, env...)
	return cmd.Run()
}

// platformName returns the name of a platform in names of files: linux_armv7.
func platformName(platform string) string {
	if platform == "linux/arm" {
		return "linux_armv7"
	}
	return strings.Replace(platform, "/", "_", 1)
}

// binary returns where buildAll puts the binary of a platform.
func (r *release) binary(platform string) string {
	return filepath.Join(r.work, "bin", platformName(platform), binaryName(platform))
}

// binaryName returns the name of the program on a platform.
func binaryName(platform string) string {
	if strings.HasPrefix(platform, "windows/") {
		return "smartdrive.exe"
	}
	return "smartdrive"
}

// buildAll builds the binaries, one platform after the other, and archives each.
func (r *release) buildAll(ctx context.Context) error {
	profile := "off"
	if r.pgo {
		profile = "cmd/smartdrive/serve.pgo"
	}
	telemetry := r.module + "/internal/base/telemetry"
	for _, p := range r.platforms {
		system, processor, _ := strings.Cut(p, "/")
		began := time.Now()
		err := r.goCommand(ctx, []string{"GOOS=" + system, "GOARCH=" + processor},
			"build", "-trimpath", "-buildvcs=false", "-pgo", profile,
			"-ldflags", fmt.Sprintf("-s -w -X %s.version=%s -X %s.commit=%s", telemetry, r.version, telemetry, r.commit),
			"-o", r.binary(p), "./cmd/smartdrive")
		if err == nil {
			err = r.archive(p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		fmt.Printf("%6.1f s  %s\n", time.Since(began).Seconds(), p)
	}
	return nil
}

// file is a file of an archive: its name, mode and content.
type file struct {
	name string
	mode os.FileMode
	text []byte
}

// archive writes the archive of a platform: the binary, its manual and completions, and for Linux
// what systemd needs.
func (r *release) archive(platform string) error {
	top := fmt.Sprintf("smartdrive-%s/", r.version)
	var files []file
	add := func(name, source string, mode os.FileMode) error {
		text, err := os.ReadFile(source)
		files = append(files, file{top + name, mode, text})
		return err
	}
	sources := map[string]string{
		"LICENSE": filepath.Join(r.root, "LICENSE"), "README.md": filepath.Join(r.root, "README.md"), "config.yaml": filepath.Join(r.root, "deploy/config.yaml"),
	}
	for shell, name := range shells {
		sources["completions/"+name] = filepath.Join(r.work, "completions", shell)
	}
	if strings.HasPrefix(platform, "linux/") {
		for _, name := range []string{"smartdrive.service", "smartdrive-agent@.service", "smartdrive.sysusers", "smartdrive.tmpfiles"} {
			sources["systemd/"+name] = filepath.Join(r.root, "deploy", name)
		}
	}
	pages, err := os.ReadDir(filepath.Join(r.work, "man"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		sources["man/man1/"+page.Name()] = filepath.Join(r.work, "man", page.Name())
	}
	errs := []error{add(binaryName(platform), r.binary(platform), 0o755)}
	for name, source := range sources {
		errs = append(errs, add(name, source, 0o644))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	name := fmt.Sprintf("smartdrive_%s_%s", r.version, platformName(platform))
	if strings.HasPrefix(platform, "windows/") {
		return create(filepath.Join(r.dist, name+".zip"), func(w io.Writer) error { return writeZip(w, files, r.date) })
	}
	return create(filepath.Join(r.dist, name+".tar.gz"), func(w io.Writer) error { return writeTarGz(w, files, r.date) })
}

// create writes a file by a function and removes it if that fails.
func create(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// writeTarGz writes files as a compressed tar archive. A name that ends with / is a directory.
func writeTarGz(w io.Writer, files []file, date time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(z, files, date), z.Close())
}

// writeTar writes files as a tar archive. A name that ends with / is a directory.
func writeTar(w io.Writer, files []file, date time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(f.text)), ModTime: date, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.text); err != nil {
			return err
		}
	}
	return t.Close()
}

// writeZip writes files as a zip.
func writeZip(w io.Writer, files []file, date time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: path.Clean(f.name), Method: zip.Deflate, Modified: date}
		h.SetMode(f.mode)
		entry, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.text); err != nil {
			return err
		}
	}
	return z.Close()
}
