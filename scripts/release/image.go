package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the uid and gid of the server in the image, unless "docker run --user" names others.
const imageUser = "65532"

// writeImages writes an image for amd64 and one for arm64: each as an archive for "docker load",
// and both in one archive of an OCI layout.
func (r *release) writeImages(context.Context) error {
	index := v1.ImageIndex(mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	dir := filepath.Join(r.work, "oci")
	found := false
	for _, processor := range []string{"amd64", "arm64"} {
		if !slices.Contains(r.platforms, "linux/"+processor) {
			continue
		}
		found = true
		image, err := r.image(processor)
		if err != nil {
			return err
		}
		tag, err := name.NewTag("smartdrive:" + r.version)
		if err != nil {
			return err
		}
		file := filepath.Join(r.dist, fmt.Sprintf("smartdrive_%s_image_%s.docker.tar", r.version, processor))
		if err := create(file, func(w io.Writer) error { return tarball.Write(tag, image, w) }); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: "linux", Architecture: processor},
			Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version + "-" + processor},
		}})
	}
	if !found {
		return nil
	}
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	files, err := tree(dir)
	if err != nil {
		return err
	}
	return create(filepath.Join(r.dist, fmt.Sprintf("smartdrive_%s_image.oci.tar", r.version)), func(w io.Writer) error { return writeTar(w, files, r.date) })
}

// tree returns the files below a directory with their names in it, sorted.
func tree(dir string) (all []file, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		all = append(all, file{filepath.ToSlash(name), 0o644, text})
		return err
	})
	return all, err
}

// image returns the image for a processor. It has one layer: the binary, the certificates of public
// authorities, a name for the user, and directories that any user may write to.
func (r *release) image(processor string) (v1.Image, error) {
	binary, err := os.ReadFile(r.binary("linux/" + processor))
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	if err := writeTar(&layer, []file{
		{"data/", 0o1777, nil},
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("root:x:0:\nsmartdrive:x:" + imageUser + ":\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nsmartdrive:x:" + imageUser + ":" + imageUser + ":SmartDrive:/data:/sbin/nologin\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{"tmp/", 0o1777, nil},
		{"usr/", 0o755, nil},
		{"usr/local/", 0o755, nil},
		{"usr/local/bin/", 0o755, nil},
		{"usr/local/bin/smartdrive", 0o755, binary},
	}, r.date); err != nil {
		return nil, err
	}
	added, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: added, History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "scripts/release"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created, config.OS, config.Architecture = v1.Time{Time: r.date}, "linux", processor
	config.Config = v1.Config{
		User:       imageUser + ":" + imageUser,
		Entrypoint: []string{"smartdrive"}, Cmd: []string{"serve"}, // so that "docker run IMAGE version" and "docker exec" work as expected
		Env: []string{
			"PATH=/usr/local/bin",
			// A directory of the server's own in the volume: it may belong to any user, and root of
			// the volume need not.
			"SMARTDRIVE_DATA=/data/smartdrive",
			"SMARTDRIVE_LISTEN=0.0.0.0:8320",
		},
		ExposedPorts: map[string]struct{}{"8320/tcp": {}}, Volumes: map[string]struct{}{"/data": {}}, StopSignal: "SIGTERM",
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "smartdrive", "admin", "ready"}, Interval: 30 * time.Second, Timeout: 6 * time.Second, StartPeriod: time.Minute, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title": "SmartDrive", "org.opencontainers.image.description": summary, "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.created": r.date.Format(time.RFC3339), "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// authorities returns the certificates of Mozilla's list in PEM, without those that are valid for a
// part of what they sign: PEM cannot express that.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}
