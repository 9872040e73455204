package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"lukechampine.com/blake3"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/filelock"
	"smartdrive/internal/intake/bundle"
	"smartdrive/internal/intake/invoice/envelope"
)

// again is how long a file that could not be read is left alone.
const again = time.Minute

// bundle freezes the next bundle, if there is enough for one, or something has waited for long
// enough.
func (a *Agent) bundle(ctx context.Context) error {
	ready, never := a.groups()
	a.count(ready)
	if err := a.refuse(never); err != nil {
		return err
	}
	if len(ready) == 0 {
		a.draining = false
		return nil
	}
	if !a.draining && !a.due(ready) {
		return nil
	}
	f, err := a.freeze(ctx, ready)
	if err != nil || f == nil {
		return err
	}
	m := &f.Manifest
	if err := a.commit("freeze", func(s *state) { s.Current = f }); err != nil {
		return err
	}
	a.fails, a.nextTry = 0, time.Time{}
	a.log.Info("frozen", "bundle", m.ID, "files", len(m.Members), "documents", m.Declared(), "bytes", m.Size())
	return nil
}

// due says whether a bundle is to be made now.
func (a *Agent) due(ready []*group) bool {
	size, files := int64(0), 0
	for _, g := range ready {
		size, files = size+g.size, files+len(g.files)
	}
	return size >= a.opt.MaxSize || files >= a.opt.MaxFiles || time.Since(ready[0].first) >= a.opt.Every
}

// freeze reads as many groups as a bundle holds and writes down what they are. It is nil when none
// could be read.
func (a *Agent) freeze(ctx context.Context, ready []*group) (*flight, error) {
	f := &flight{Server: a.opt.Client.BaseURL(), Stage: stageFrozen, Manifest: bundle.Manifest{
		Schema: bundle.Schema, ID: bundle.NewID(), Source: a.source, CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
	}}
	names, size := map[string]bool{}, int64(0)
	for n, g := range ready {
		if len(f.Files) > 0 && (size+g.size > a.opt.MaxSize || len(f.Files)+len(g.files) > a.opt.MaxFiles) {
			continue // a smaller one may fit
		}
		if !fits(names, g) {
			continue // a bundle is flat, and another of this name is in it
		}
		members, files, err := a.freezeGroup(ctx, g, n)
		if err != nil {
			return nil, err
		}
		if members == nil {
			continue
		}
		if f.Manifest.Declared()+declared(members) > bundle.MaxDocuments {
			continue
		}
		for _, m := range members {
			names[drive.Name(m.Name).Fold()] = true
		}
		f.Manifest.Members = append(f.Manifest.Members, members...)
		f.Files = append(f.Files, files...)
		f.Markers = append(f.Markers, g.markerFiles(n)...)
		size += g.size
	}
	if len(f.Files) == 0 {
		return nil, nil
	}
	_, err := f.Manifest.Encode()
	return f, err
}

func (g *group) markerFiles(n int) (files []file) {
	for _, name := range g.markers {
		files = append(files, file{Path: name, Group: n})
	}
	return files
}

func declared(members []bundle.Member) (n int) {
	for _, m := range members {
		n += m.Documents
	}
	return n
}

// fits reports whether no file of g has a name that is taken, in names or by another file of g.
func fits(names map[string]bool, g *group) bool {
	own := map[string]bool{}
	for _, name := range g.files {
		folded := drive.Name(memberName(name)).Fold()
		if names[folded] || own[folded] {
			return false
		}
		own[folded] = true
	}
	return true
}

// freezeGroup reads the files of a group; nothing is returned for one that cannot be taken now. The
// error is the caller's end.
func (a *Agent) freezeGroup(ctx context.Context, g *group, n int) ([]bundle.Member, []file, error) {
	members, files := make([]bundle.Member, 0, len(g.files)), make([]file, 0, len(g.files))
	for _, name := range g.files {
		s := a.seen[name]
		m, blake, err := a.freezeFile(ctx, name, s)
		switch {
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case errors.Is(err, errChanged):
			delete(a.seen, name) // it starts again
			return nil, nil, nil
		case err != nil:
			s.why, s.asleep = reason(err), time.Now().Add(again)
			a.held[name] = s.why
			a.log.Warn("a file cannot be read", "file", name, "error", err)
			return nil, nil, nil
		}
		members = append(members, m)
		files = append(files, file{Path: name, Size: s.size, Mtime: s.mtime, BLAKE3: blake, Group: n})
	}
	if declared(members) == 0 {
		if err := a.countEnvelopes(members, files); err != nil {
			return nil, nil, nil //nolint:nilerr // it was there a moment ago; the next round looks again
		}
	}
	if declared(members) > bundle.MaxDocuments {
		g.never = fmt.Sprintf("more than %d documents", bundle.MaxDocuments)
		return nil, nil, a.refuse([]*group{g})
	}
	return members, files, nil
}

// countEnvelopes declares the documents within PDFs and archives. It is for a group that has no
// other document: else a PDF is the picture of one.
func (a *Agent) countEnvelopes(members []bundle.Member, files []file) error {
	for i := range members {
		f, err := a.root.Open(files[i].Path)
		if err != nil {
			return err
		}
		head := make([]byte, 1024)
		n, err := f.ReadAt(head, 0)
		if kind := envelope.Sniff(head[:n]); kind != envelope.None && (err == nil || errors.Is(err, io.EOF)) {
			members[i].Documents, err = envelope.Count(kind, f, files[i].Size)
		}
		letGo(f)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

var (
	errChanged = errors.New("it was changed meanwhile")
	errLocked  = errors.New("another program has locked it")
)

// freezeFile reads a file once, for its digests and the number of its documents.
func (a *Agent) freezeFile(ctx context.Context, name string, s *seen) (m bundle.Member, blake string, err error) {
	f, err := a.openAs(name, s.size, s.mtime)
	if err != nil {
		return m, "", err
	}
	defer letGo(f)
	if held, err := filelock.TryShared(f); err == nil && held {
		return m, "", errLocked
	}
	sha, b3, counter := sha256.New(), blake3.New(32, nil), &envelope.Counter{Name: name}
	n, err := io.CopyBuffer(io.MultiWriter(sha, b3, counter), until(ctx, f), make([]byte, 256<<10))
	if err != nil {
		return m, "", err
	}
	if n != s.size || !same(f, s.size, s.mtime) {
		return m, "", errChanged
	}
	m = bundle.Member{
		Name: memberName(name), Size: n, SHA256: hex.EncodeToString(sha.Sum(nil)),
		Type: drive.MimeOf(drive.Name(memberName(name))), Documents: counter.Documents(),
	}
	return m, hex.EncodeToString(b3.Sum(nil)), nil
}

// openAs opens a file that must still be what it was.
func (a *Agent) openAs(name string, size int64, mtime time.Time) (*os.File, error) {
	f, err := a.root.Open(name)
	if err != nil {
		return nil, err
	}
	if !same(f, size, mtime) {
		return nil, errors.Join(errChanged, f.Close())
	}
	return f, nil
}

// same asks the open file, not its name: that may be another file's by now.
func same(f *os.File, size int64, mtime time.Time) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular() && info.Size() == size && info.ModTime().Equal(mtime)
}

// readFunc is an io.Reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// until is r that ends with ctx.
func until(ctx context.Context, r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(p)
	})
}
