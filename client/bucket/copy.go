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

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/intake/bundle"
)

// parallel is how many members of a bundle are copied at once.
const parallel = 4

// result is what forward did with a bundle.
type result int

const (
	notSealed    result = iota // it has no meta.json
	incomplete                 // members are missing
	alreadyThere               // the server has this meta.json
	forwarded                  // copied
)

var (
	// errDiffers reports that an object's bytes do not match the manifest.
	errDiffers = errors.New("the object differs from its manifest")
	// errTooLarge reports a manifest above bundle.MaxSize.
	errTooLarge = fmt.Errorf("%s is larger than %d bytes", bundle.MetaName, bundle.MaxSize)
)

// copyJob is the copying of one bundle. A file in the drive has the mtime of its object, in
// milliseconds, so that a replaced object is detected.
type copyJob struct {
	*Forwarder
	to      string                      // the folder in the drive
	objects map[string]minio.ObjectInfo // objects of the bundle in the bucket, by name
	files   map[string]client.Node      // files of the bundle in the drive, by name
}

// forward copies a bundle unless the server has its current meta.json.
//
// If members are missing, it returns incomplete until meta.json is 15 minutes old, and then copies
// the bundle without them: the server rejects the bundle and names the missing members.
func (f *Forwarder) forward(ctx context.Context, source, id string) (result, error) {
	j := copyJob{f, bundle.Folder(source, id).String(), map[string]minio.ObjectInfo{}, map[string]client.Node{}}
	if err := j.list(ctx, f.prefix+source+"/"+id+"/"); err != nil {
		return notSealed, err
	}
	meta, sealed := j.objects[string(bundle.MetaName)]
	if !sealed {
		return notSealed, nil
	}
	did, err := alreadyThere, error(nil)
	if !j.hasFile(meta) {
		did, err = j.copy(ctx, meta)
	}
	if err == nil && did != incomplete {
		if f.known[source] == nil {
			f.known[source] = map[string]struct{}{}
		}
		f.known[source][id] = struct{}{}
	}
	return did, err
}

// list lists the objects below a prefix, and the files in the drive if the bundle is sealed.
// Without a folder in the drive j.files stays empty. It fails with the error of a listing.
func (j *copyJob) list(ctx context.Context, from string) error {
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

// hasFile reports whether the drive has the object's current content, by size and mtime.
func (j *copyJob) hasFile(o minio.ObjectInfo) bool {
	n, ok := j.files[path.Base(o.Key)]
	return ok && n.Size == o.Size && n.Mtime.UnixMilli() == o.LastModified.UnixMilli()
}

// copy copies the members and then meta.json, which seals the bundle. It returns incomplete, and a
// nil error, while members are missing within memberGrace; after that it forwards without them.
// With an error the bundle is not sealed and the next pass repeats the copy.
func (j *copyJob) copy(ctx context.Context, meta minio.ObjectInfo) (result, error) {
	if meta.Size > bundle.MaxSize {
		return notSealed, errTooLarge
	}
	raw, err := j.read(ctx, meta)
	if err != nil {
		return notSealed, err
	}
	manifest, err := bundle.Decode(bytes.NewReader(raw))
	if err != nil {
		manifest = &bundle.Manifest{} // the server refuses meta.json and says why
	}
	missing, err := j.copyMembers(ctx, manifest)
	if err != nil {
		return notSealed, err
	}
	if missing && time.Since(meta.LastModified) < memberGrace {
		return incomplete, nil
	}
	err = j.put(ctx, client.Source{
		Name: string(bundle.MetaName), Size: int64(len(raw)), Mtime: meta.LastModified,
		Open: func() (client.ReadAtCloser, error) { return memoryFile{bytes.NewReader(raw)}, nil },
	}, "")
	if err == nil {
		j.opt.Log.Info("bundle forwarded", "folder", j.to, "members", len(manifest.Members), "bytes", manifest.Size())
	}
	return forwarded, err
}

// copyMembers copies the members that the drive lacks. missing reports that the bucket lacks
// members or has them in another size. It waits for all copies and returns the first failure.
func (j *copyJob) copyMembers(ctx context.Context, manifest *bundle.Manifest) (missing bool, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, m := range manifest.Members {
		o, ok := j.objects[m.Name]
		if !ok || o.Size != m.Size {
			missing = true
			continue
		}
		if j.hasFile(o) {
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

// copyMember copies an object through a temporary file. It fails with errDiffers if size or SHA-256
// differ from the manifest.
func (j *copyJob) copyMember(ctx context.Context, o minio.ObjectInfo, m bundle.Member) (err error) {
	r, err := j.open(ctx, o)
	if err != nil {
		return err
	}
	defer closeQuietly(r)
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

// put uploads a file into the bundle's folder, replacing an existing one.
func (j *copyJob) put(ctx context.Context, src client.Source, mime string) error {
	_, err := j.up.Put(ctx, src, path.Join(j.to, src.Name), client.PutOptions{Conflict: client.Replace, Parents: true, MIME: mime})
	return err
}

// open opens an object. Reading fails if the object was replaced since it was listed.
func (j *copyJob) open(ctx context.Context, o minio.ObjectInfo) (io.ReadCloser, error) {
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

// read returns the content of an object in memory. The caller must check the size before.
func (j *copyJob) read(ctx context.Context, o minio.ObjectInfo) ([]byte, error) {
	r, err := j.open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer closeQuietly(r)
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return raw, nil
}

// memoryFile is a file in memory.
type memoryFile struct{ *bytes.Reader }

// Close does nothing.
func (memoryFile) Close() error { return nil }

// closeQuietly closes a reader and ignores the error, because everything was read.
func closeQuietly(c io.Closer) { _ = c.Close() }
