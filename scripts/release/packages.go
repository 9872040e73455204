package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // the packagers register themselves
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const (
	maintainer = "SmartDrive <packages@example.org>"
	homepage   = "https://example.org/smartdrive"
	summary    = "self-hosted cloud drive: server, web pages and command line"
	// description has a first line of its own; deb and rpm take the first line as the summary.
	description = summary + `
SmartDrive stores files of people and teams on your own machine. Uploads
resume, content is verified and stored once, and old versions are kept. It is
one static binary and needs no other service.`
)

// packageArch maps GOARCH to the name that nfpm translates for each kind of package.
var packageArch = map[string]string{"amd64": "amd64", "arm64": "arm64", "arm": "arm7", "riscv64": "riscv64"}

// writePackages writes a Debian, an RPM and an Alpine package for each Linux platform.
func (r *release) writePackages(context.Context) error {
	for _, p := range r.platforms {
		processor, ok := strings.CutPrefix(p, "linux/")
		if !ok {
			continue
		}
		for _, kind := range []string{"deb", "rpm", "apk"} {
			if err := r.writePackage(kind, p, packageArch[processor]); err != nil {
				return fmt.Errorf("%s for %s: %w", kind, p, err)
			}
		}
	}
	return nil
}

// writePackage writes one package.
func (r *release) writePackage(kind, platform, arch string) error {
	contents, err := r.contents(kind, platform)
	if err != nil {
		return err
	}
	scripts, err := r.scripts(kind)
	if err != nil {
		return err
	}
	info := &nfpm.Info{
		Name: "smartdrive", Arch: arch, Version: r.version, Section: "net", Priority: "optional", Maintainer: maintainer,
		Description: description, Vendor: "SmartDrive", Homepage: homepage, License: "Apache-2.0", MTime: r.date, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents, Umask: 0o022,
			RPM: nfpm.RPM{Summary: summary, BuildHost: "localhost", Group: "Applications/Internet"},
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(scripts, "postinstall.sh"), PreRemove: filepath.Join(scripts, "preremove.sh"), PostRemove: filepath.Join(scripts, "postremove.sh"),
			},
		},
	}
	// Only the package managers of systemd's distributions know these; Alpine has a script.
	switch kind {
	case "deb":
		info.Depends = []string{"systemd | systemd-standalone-sysusers", "systemd | systemd-standalone-tmpfiles"}
		info.Recommends = []string{"ca-certificates"}
		info.Suggests = []string{"ffmpeg", "poppler-utils", "libheif-examples"}
	case "rpm":
		info.Depends = []string{"systemd"}
		info.Recommends = []string{"ca-certificates"}
	case "apk":
		info.Scripts.PreInstall = filepath.Join(scripts, "preinstall.sh")
		info.APK.Scripts.PostUpgrade = filepath.Join(scripts, "postupgrade.sh")
		info.Scripts.PostRemove = ""
	}
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get(kind)
	if err != nil {
		return err
	}
	return create(filepath.Join(r.dist, packager.ConventionalFileName(info)), func(w io.Writer) error { return packager.Package(info, w) })
}

// scripts copies the scripts of a kind of package and returns the directory of the copies. Their
// time is that of the commit, because nfpm writes it into Alpine packages.
func (r *release) scripts(kind string) (string, error) {
	files, err := tree(filepath.Join(r.root, "deploy/package", kind))
	dir := filepath.Join(r.work, "scripts", kind)
	err = errors.Join(err, os.MkdirAll(dir, 0o755))
	for _, f := range files {
		name := filepath.Join(dir, f.name)
		err = errors.Join(err, os.WriteFile(name, f.text, 0o755), os.Chtimes(name, r.date, r.date))
	}
	return dir, err
}

// contents returns the files of a package.
func (r *release) contents(kind, platform string) (files.Contents, error) {
	c := &contents{dir: filepath.Join(r.work, "contents", kind+platformName(platform)), date: r.date}
	deploy := filepath.Join(r.root, "deploy")
	c.copy("/usr/bin/smartdrive", r.binary(platform), 0o755)
	for shell, dir := range map[string]string{"bash": "bash-completion/completions", "zsh": zshDir(kind), "fish": "fish/vendor_completions.d"} {
		c.copy("/usr/share/"+dir+"/"+shells[shell], filepath.Join(r.work, "completions", shell), 0o644)
	}
	pages, err := os.ReadDir(filepath.Join(r.work, "man"))
	c.fail(err)
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(r.work, "man", page.Name()))
		c.fail(err)
		c.compress("/usr/share/man/man1/"+page.Name()+".gz", text)
	}
	c.copy("/etc/smartdrive/config.yaml", filepath.Join(deploy, "config.yaml"), 0o640)
	c.all[len(c.all)-1].Type = files.TypeConfigNoReplace
	if kind == "apk" {
		c.copy("/etc/init.d/smartdrive", filepath.Join(deploy, "package/apk/smartdrive.initd"), 0o755)
		return c.all, c.err
	}
	for _, unit := range []string{"smartdrive.service", "smartdrive-agent@.service"} {
		text, err := packagedUnit(filepath.Join(deploy, unit))
		c.fail(err)
		c.write("/usr/lib/systemd/system/"+unit, text, 0o644)
	}
	c.copy("/usr/lib/sysusers.d/smartdrive.conf", filepath.Join(deploy, "smartdrive.sysusers"), 0o644)
	c.copy("/usr/lib/tmpfiles.d/smartdrive.conf", filepath.Join(deploy, "smartdrive.tmpfiles"), 0o644)
	if kind == "rpm" {
		c.copy("/usr/share/licenses/smartdrive/LICENSE", filepath.Join(r.root, "LICENSE"), 0o644)
		return c.all, c.err
	}
	const docs = "/usr/share/doc/smartdrive/"
	c.copy(docs+"copyright", filepath.Join(deploy, "package/deb/copyright"), 0o644)
	c.copy("/usr/share/lintian/overrides/smartdrive", filepath.Join(deploy, "package/deb/lintian-overrides"), 0o644)
	c.compress(docs+"changelog.gz", fmt.Appendf(nil, "smartdrive (%s) stable; urgency=medium\n\n  * The changes are at %s\n\n -- %s  %s\n",
		strings.Replace(r.version, "-", "~", 1), homepage, maintainer, r.date.Format(time.RFC1123Z)))
	return c.all, c.err
}

// zshDir returns the directory below /usr/share where a distribution's zsh looks for completions.
func zshDir(kind string) string {
	if kind == "deb" {
		return "zsh/vendor-completions"
	}
	return "zsh/site-functions"
}

// packagedUnit returns a unit of deploy as packages have it: for /usr/bin, and without the comment
// on how to install it.
func packagedUnit(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	_, body, ok := bytes.Cut(text, []byte("[Unit]\n"))
	const ours = "ExecStart=/usr/local/bin/smartdrive "
	if !ok || bytes.Count(body, []byte(ours)) != 1 {
		return nil, fmt.Errorf("%s has no section [Unit] or no %q", name, ours)
	}
	return append([]byte("[Unit]\n"), bytes.Replace(body, []byte(ours), []byte("ExecStart=/usr/bin/smartdrive "), 1)...), nil
}

// contents collects the files of a package. Files that do not exist as they are packaged are
// written into dir. err is the first error.
type contents struct {
	dir  string
	date time.Time
	all  files.Contents
	err  error
}

// fail keeps the first error.
func (c *contents) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// copy adds a file as it is.
func (c *contents) copy(to, source string, mode os.FileMode) {
	c.all = append(c.all, &files.Content{
		Source: source, Destination: to, Type: files.TypeFile, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: c.date},
	})
}

// write adds a file with a text.
func (c *contents) write(to string, text []byte, mode os.FileMode) {
	source := filepath.Join(c.dir, to)
	c.fail(errors.Join(os.MkdirAll(filepath.Dir(source), 0o755), os.WriteFile(source, text, mode)))
	c.copy(to, source, mode)
}

// compress adds a file with a text in the form of gzip, without a time.
func (c *contents) compress(to string, text []byte) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	c.fail(err)
	_, err = z.Write(text)
	c.fail(errors.Join(err, z.Close()))
	c.write(to, b.Bytes(), 0o644)
}
