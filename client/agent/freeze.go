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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/filelock"
	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice/envelope"
)

// retryReadAfter is the delay before an unreadable file or a failed move is tried again.
const retryReadAfter = time.Minute

// freezeNext makes the next bundle the current one, with its files as they are now, if enough files
// are complete or one has waited for Options.Every. It moves groups that can never be sent to
// failed/. It does not send anything.
func (a *Agent) freezeNext(ctx context.Context) error {
	ready, never := a.groups()
	a.updateCounts(ready)
	if err := a.failGroups(never); err != nil {
		return err
	}
	if len(ready) == 0 {
		a.draining = false
		return nil
	}
	if !a.draining && !a.bundleDue(ready) {
		return nil
	}
	b, err := a.freeze(ctx, ready)
	if err != nil || b == nil {
		return err
	}
	m := &b.Manifest
	if err := a.commit("freeze", func(s *state) { s.Current = b }); err != nil {
		return err
	}
	a.failures, a.nextTry = 0, time.Time{}
	a.log.Info("bundle frozen; sending starts", "bundle", m.ID, "files", len(m.Members), "documents", m.Declared(), "bytes", m.Size())
	return nil
}

// bundleDue reports whether a bundle of the ready groups is to be frozen now.
func (a *Agent) bundleDue(ready []*group) bool {
	size, files := int64(0), 0
	for _, g := range ready {
		size, files = size+g.size, files+len(g.files)
	}
	return size >= a.opt.MaxSize || files >= a.opt.MaxFiles || time.Since(ready[0].first) >= a.opt.Every
}

// freeze reads as many groups as fit into a bundle and returns the bundle; nil without an error if
// no group could be read. Groups that do not fit stay for the next one. It writes no state.
func (a *Agent) freeze(ctx context.Context, ready []*group) (*outgoing, error) {
	b := &outgoing{Server: a.opt.Client.BaseURL(), Stage: stageFrozen, Manifest: bundle.Manifest{
		Schema: bundle.Schema, ID: bundle.NewID(), Source: a.source, CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
	}}
	names, size := map[string]bool{}, int64(0)
	for n, g := range ready {
		if len(b.Files) > 0 && (size+g.size > a.opt.MaxSize || len(b.Files)+len(g.files) > a.opt.MaxFiles) {
			continue // a smaller group may fit
		}
		if !hasUniqueNames(names, g) {
			continue // the name is already used; bundles have no subfolders
		}
		members, files, err := a.freezeGroup(ctx, g, n)
		if err != nil {
			return nil, err
		}
		if members == nil {
			continue
		}
		if b.Manifest.Declared()+documentCount(members) > bundle.MaxDocuments {
			continue
		}
		for _, m := range members {
			names[drive.Name(m.Name).Fold()] = true
		}
		b.Manifest.Members = append(b.Manifest.Members, members...)
		b.Files = append(b.Files, files...)
		b.Markers = append(b.Markers, g.markerFiles(n)...)
		size += g.size
	}
	if len(b.Files) == 0 {
		return nil, nil
	}
	_, err := b.Manifest.Encode()
	return b, err
}

// markerFiles returns the markers as files of group number n.
func (g *group) markerFiles(n int) (files []frozenFile) {
	for _, name := range g.markers {
		files = append(files, frozenFile{Path: name, Group: n})
	}
	return files
}

// documentCount returns the number of documents in the members.
func documentCount(members []bundle.Member) (n int) {
	for _, m := range members {
		n += m.Documents
	}
	return n
}

// hasUniqueNames reports whether the member names of g differ from each other and from names,
// ignoring case.
func hasUniqueNames(names map[string]bool, g *group) bool {
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

// freezeGroup reads the files of group number n and returns its members and files, in the same
// order. Nil members without an error mean that the group cannot be taken now: a file changed, or
// could not be read and is skipped for a minute. A group with too many documents is moved to
// failed/. The error is ctx's or one of the state.
func (a *Agent) freezeGroup(ctx context.Context, g *group, n int) ([]bundle.Member, []frozenFile, error) {
	members, files := make([]bundle.Member, 0, len(g.files)), make([]frozenFile, 0, len(g.files))
	for _, name := range g.files {
		s := a.observed[name]
		m, blake, err := a.freezeFile(ctx, name, s)
		switch {
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case errors.Is(err, errChanged):
			delete(a.observed, name) // the settle time starts again
			return nil, nil, nil
		case err != nil:
			s.skipReason, s.skipUntil = errorText(err), time.Now().Add(retryReadAfter)
			a.skipped[name] = s.skipReason
			a.log.Warn("cannot read a file; trying again in a minute", "file", name, "error", err)
			return nil, nil, nil
		}
		members = append(members, m)
		files = append(files, frozenFile{Path: name, Size: s.size, Mtime: s.mtime, BLAKE3: blake, Group: n})
	}
	if documentCount(members) == 0 {
		if err := a.countEnvelopes(members, files); err != nil {
			return nil, nil, nil //nolint:nilerr // the file was readable before; the next scan tries again
		}
	}
	if documentCount(members) > bundle.MaxDocuments {
		g.failure = fmt.Sprintf("more than %d documents", bundle.MaxDocuments)
		return nil, nil, a.failGroups([]*group{g})
	}
	return members, files, nil
}

// countEnvelopes sets Documents of each member that is a PDF or archive to the number of documents
// inside. files[i] is the file of members[i]. Call it only for groups without other documents:
// beside an XML invoice, a PDF is only its printed form. It fails if a file cannot be read.
func (a *Agent) countEnvelopes(members []bundle.Member, files []frozenFile) error {
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
		closeQuietly(f)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

var (
	// errChanged reports that a file changed while it was being frozen.
	errChanged = errors.New("it was changed meanwhile")
	// errLocked reports that another program has the file open exclusively.
	errLocked = errors.New("another program has locked it")
)

// freezeFile reads a file once and returns its member and BLAKE3 digest. It fails with errChanged,
// or with errLocked if another program has locked the file.
func (a *Agent) freezeFile(ctx context.Context, name string, s *observation) (m bundle.Member, blake string, err error) {
	f, err := a.openUnchanged(name, s.size, s.mtime)
	if err != nil {
		return m, "", err
	}
	defer closeQuietly(f)
	if held, err := filelock.TryShared(f); err == nil && held {
		return m, "", errLocked
	}
	sha, b3, counter := sha256.New(), blake3.New(32, nil), &envelope.Counter{Name: name}
	n, err := io.CopyBuffer(io.MultiWriter(sha, b3, counter), contextReader(ctx, f), make([]byte, 256<<10))
	if err != nil {
		return m, "", err
	}
	if n != s.size || !isUnchanged(f, s.size, s.mtime) {
		return m, "", errChanged
	}
	m = bundle.Member{
		Name: memberName(name), Size: n, SHA256: hex.EncodeToString(sha.Sum(nil)),
		Type: drive.MimeOf(drive.Name(memberName(name))), Documents: counter.Documents(),
	}
	return m, hex.EncodeToString(b3.Sum(nil)), nil
}

// openUnchanged opens a file. It fails with errChanged if size or mtime differ.
func (a *Agent) openUnchanged(name string, size int64, mtime time.Time) (*os.File, error) {
	f, err := a.root.Open(name)
	if err != nil {
		return nil, err
	}
	if !isUnchanged(f, size, mtime) {
		return nil, errors.Join(errChanged, f.Close())
	}
	return f, nil
}

// isUnchanged reports whether an open file is regular and has this size and mtime. It checks the
// open file, because the name may refer to another file by now.
func isUnchanged(f *os.File, size int64, mtime time.Time) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular() && info.Size() == size && info.ModTime().Equal(mtime)
}

// readFunc is a function that implements io.Reader.
type readFunc func([]byte) (int, error)

// Read calls f.
func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// contextReader returns r, failing with the context's cause once ctx has ended.
func contextReader(ctx context.Context, r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(p)
	})
}
