package services

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// VersityVersion is the version of the S3 gateway to download.
const VersityVersion = "v1.8.0"

const (
	s3Key    = "smartdrive" // also the secret
	s3Bucket = "smartdrive"
)

// gateway is versitygw, an S3 server on a directory.
type gateway struct{ server program }

// S3 returns an S3 server with data in dir. It must be started.
func (t *Tools) S3(ctx context.Context, dir string, o Options) (*Server, error) {
	server, err := t.versity(ctx)
	return &Server{Dir: dir, Bound: o.Bound, kind: &gateway{server}}, err
}

// versity returns versitygw from PATH, or a downloaded one.
func (t *Tools) versity(ctx context.Context) (program, error) {
	if path, ok := lookPath("versitygw"); ok {
		return program{path: path}, nil
	}
	dir, err := t.cached("versitygw-"+VersityVersion, func(dir string) error {
		cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w", "github.com/versity/versitygw/cmd/versitygw@"+VersityVersion)
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=")
		_, err := output(cmd)
		return err
	})
	if err != nil {
		return program{}, fmt.Errorf("versitygw: %w", err)
	}
	return program{path: filepath.Join(dir, "versitygw")}, nil
}

// ports returns 1.
func (g *gateway) ports() int { return 1 }

// create creates the directories for metadata, used on file systems without extended attributes,
// and for versions of objects.
func (g *gateway) create(_ context.Context, s *Server) error {
	return errors.Join(os.MkdirAll(s.path("sidecar"), 0o700), os.MkdirAll(s.path("versions"), 0o700))
}

// command repairs interrupted completions and returns the command of the server.
func (g *gateway) command(s *Server) (*exec.Cmd, error) {
	if err := repairMultiparts(s.path("data"), s.path("sidecar")); err != nil {
		return nil, err
	}
	args := []string{"--port", s.Addr(), "--quiet", "--keep-alive", "posix"} // keep-alive as in other stores
	if !hasAttributes(s.path("data")) {
		args = append(args, "--sidecar", s.path("sidecar"))
	} else if _, err := os.Stat(s.path("versions")); err == nil { // created by a release with versioning
		args = append(args, "--versioning-dir", s.path("versions"))
	}
	cmd := g.server.command(append(args, s.path("data"))...)
	cmd.Env = append(cmd.Env, "ROOT_ACCESS_KEY="+s3Key, "ROOT_SECRET_KEY="+s3Key)
	return cmd, nil
}

// repairMultiparts reverts completions of multipart uploads that were interrupted by a kill. During
// a completion, versitygw 1.8 renames the directory with the parts to <upload>.<etag>.inprogress.
// After a restart it does not recover it, and reports an object that does not exist. A separate
// metadata tree has the same layout as data.
func repairMultiparts(data, metadata string) error {
	for _, tree := range []string{data, metadata} {
		stuck, err := filepath.Glob(filepath.Join(tree, s3Bucket, ".sgwtmp", "multipart", "*", "*.inprogress"))
		if err != nil {
			return err
		}
		for _, dir := range stuck {
			uploads := filepath.Dir(dir)
			there, err := hasObject(filepath.Join(data, s3Bucket), filepath.Base(uploads))
			if err != nil {
				return err
			}
			id, _, _ := strings.Cut(filepath.Base(dir), ".")
			if there { // only deleting the parts was unfinished
				err = os.RemoveAll(dir)
			} else {
				err = os.Rename(dir, filepath.Join(uploads, id))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// errFound ends the search of hasObject.
var errFound = errors.New("found")

// hasObject reports whether the bucket contains an object whose key has the SHA-256 sum.
func hasObject(bucket, sum string) (bool, error) {
	err := filepath.WalkDir(bucket, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".sgwtmp":
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		key, err := filepath.Rel(bucket, path)
		if err == nil && fmt.Sprintf("%x", sha256.Sum256([]byte(filepath.ToSlash(key)))) == sum {
			err = errFound
		}
		return err
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// ready returns nil when the server works; it creates the bucket.
func (g *gateway) ready(ctx context.Context, s *Server) error {
	c, err := minio.New(s.Addr(), &minio.Options{Creds: credentials.NewStaticV4(s3Key, s3Key, ""), Region: "us-east-1", MaxRetries: 1})
	if err != nil {
		return err
	}
	there, err := c.BucketExists(ctx, s3Bucket)
	if err != nil || there {
		return err
	}
	return c.MakeBucket(ctx, s3Bucket, minio.MakeBucketOptions{})
}

// url returns the address of the bucket with the credentials.
func (g *gateway) url(s *Server) string {
	return "s3://" + s3Key + ":" + s3Key + "@" + s.Addr() + "/" + s3Bucket + "?insecure=true"
}
