package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"smartdrive/client"
	"smartdrive/internal/intake/bundle"
)

// parallel is how many members of a bundle are copied at once.
const parallel = 4

// outcome is what forward did with a bundle.
type outcome int

const (
	unsealed  outcome = iota // it has no meta.json
	waiting                  // members are missing
	there                    // the server has this meta.json
	forwarded                // copied
)

var (
	errDiffers  = errors.New("the object differs from its manifest")
	errTooLarge = fmt.Errorf("%s is larger than %d bytes", bundle.MetaName, bundle.MaxSize)
)

// job is one bundle: what the bucket and the drive have of it, by name. The time of a file in the
// drive is that of its object, in milliseconds, which tells a replaced object from the first.
type job struct {
	*Forwarder
	to      string // the folder in the drive
	objects map[string]minio.ObjectInfo
	files   map[string]client.Node
}

// forward copies a bundle unless the server has its meta.json already.
//
// If members are missing it waits until meta.json is 15 minutes old, and then copies the others:
// the server rejects the bundle and names what is missing.
func (f *Forwarder) forward(ctx context.Context, source, id string) (outcome, error) {
	j := job{f, bundle.Folder(source, id).String(), map[string]minio.ObjectInfo{}, map[string]client.Node{}}
	if err := j.look(ctx, f.prefix+source+"/"+id+"/"); err != nil {
		return unsealed, err
	}
	meta, sealed := j.objects[string(bundle.MetaName)]
	if !sealed {
		return unsealed, nil
	}
	did, err := there, error(nil)
	if !j.has(meta) {
		did, err = j.copy(ctx, meta)
	}
	if err == nil && did != waiting {
		if f.known[source] == nil {
			f.known[source] = map[string]struct{}{}
		}
		f.known[source][id] = struct{}{}
	}
	return did, err
}

// look lists what the bucket has below a prefix, and, of a sealed bundle, what the drive has.
func (j *job) look(ctx context.Context, from string) error {
	for o := range j.api.ListObjectsIter(ctx, j.opt.Bucket.Bucket, minio.ListObjectsOptions{Prefix: from}) {
		if o.Err != nil {
			return fmt.Errorf("list %s: %w", from, o.Err)
		}
		j.objects[strings.TrimPrefix(o.Key, from)] = o
	}
	if _, sealed := j.objects[string(bundle.MetaName)]; !sealed {
		return nil
	}
	folder, err := j.opt.Client.NodeAt(ctx, j.to)
	if client.IsCode(err, client.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for n, err := range j.opt.Client.AllChildren(ctx, folder.ID) {
		if err != nil {
			return err
		}
		j.files[n.Name] = n
	}
	return nil
}

// has reports whether the drive has an object as a file.
func (j *job) has(o minio.ObjectInfo) bool {
	n, ok := j.files[path.Base(o.Key)]
	return ok && n.Size == o.Size && n.Mtime.UnixMilli() == o.LastModified.UnixMilli()
}

// copy copies the members, and then meta.json.
func (j *job) copy(ctx context.Context, meta minio.ObjectInfo) (outcome, error) {
	if meta.Size > bundle.MaxSize {
		return unsealed, errTooLarge
	}
	raw, err := j.read(ctx, meta)
	if err != nil {
		return unsealed, err
	}
	manifest, err := bundle.Decode(bytes.NewReader(raw))
	if err != nil {
		manifest = &bundle.Manifest{} // the server refuses meta.json and says why
	}
	missing, err := j.copyMembers(ctx, manifest)
	if err != nil {
		return unsealed, err
	}
	if missing && time.Since(meta.LastModified) < lateBy {
		return waiting, nil
	}
	err = j.put(ctx, client.Source{
		Name: string(bundle.MetaName), Size: int64(len(raw)), Mtime: meta.LastModified,
		Open: func() (client.ReadAtCloser, error) { return content{bytes.NewReader(raw)}, nil },
	}, "")
	if err == nil {
		j.opt.Log.Info("bundle forwarded", "folder", j.to, "members", len(manifest.Members), "bytes", manifest.Size())
	}
	return forwarded, err
}

func (j *job) copyMembers(ctx context.Context, manifest *bundle.Manifest) (missing bool, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, m := range manifest.Members {
		o, ok := j.objects[m.Name]
		if !ok || o.Size != m.Size {
			missing = true
			continue
		}
		if j.has(o) {
			continue
		}
		g.Go(func() error {
			if err := j.copyMember(ctx, o, m); err != nil {
				return fmt.Errorf("member %s: %w", m.Name, err)
			}
			return nil
		})
	}
	return missing, g.Wait()
}

// copyMember copies an object through a temporary file, whose SHA-256 it compares first.
func (j *job) copyMember(ctx context.Context, o minio.ObjectInfo, m bundle.Member) (err error) {
	r, err := j.open(ctx, o)
	if err != nil {
		return err
	}
	defer letGo(r)
	spool, err := os.CreateTemp("", "smartdrive-bucket-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spool.Close(), os.Remove(spool.Name())) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(spool, sum), io.LimitReader(r, m.Size+1))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if n != m.Size || hex.EncodeToString(sum.Sum(nil)) != m.SHA256 {
		return errDiffers
	}
	return j.put(ctx, client.Source{
		Name: m.Name, Size: m.Size, Mtime: o.LastModified, Open: func() (client.ReadAtCloser, error) { return os.Open(spool.Name()) },
	}, m.Type)
}

func (j *job) put(ctx context.Context, src client.Source, mime string) error {
	_, err := j.up.Put(ctx, src, path.Join(j.to, src.Name), client.PutOptions{Conflict: client.Replace, Parents: true, MIME: mime})
	return err
}

// open reads an object as it was listed. A read fails if it was replaced since.
func (j *job) open(ctx context.Context, o minio.ObjectInfo) (io.ReadCloser, error) {
	var get minio.GetObjectOptions
	if err := get.SetMatchETag(o.ETag); err != nil {
		return nil, err
	}
	r, err := j.api.GetObject(ctx, j.opt.Bucket.Bucket, o.Key, get)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return r, nil
}

func (j *job) read(ctx context.Context, o minio.ObjectInfo) ([]byte, error) {
	r, err := j.open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer letGo(r)
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return raw, nil
}

// content is a file in memory.
type content struct{ *bytes.Reader }

func (content) Close() error { return nil }

// letGo closes what was only read.
func letGo(c io.Closer) { _ = c.Close() }
