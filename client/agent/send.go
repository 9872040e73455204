package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/intake/bundle"
)

// memberError reports why a member could not be sent.
type memberError struct {
	n   int // index of the member
	err error
}

func (e *memberError) Error() string { return e.err.Error() }

// Unwrap returns the error without the member.
func (e *memberError) Unwrap() error { return e.err }

// send makes one attempt to send the current bundle. An error of the server or the network is
// stored in a.sendErr with the time of the next attempt, and send returns nil. It returns errors of
// this computer and of ctx.
func (a *Agent) send(ctx context.Context) error {
	a.renew(a.sendErr)
	err := a.deliver(ctx)
	if errors.Is(err, errCrash) || ctx.Err() != nil {
		return err
	}
	if err == nil {
		a.failures, a.nextTry, a.sendErr = 0, time.Time{}, nil
		return nil
	}
	return a.handleSendError(err)
}

// deliver sends the missing members of the current bundle, then the manifest, and ends the bundle.
// It fails with errOtherServer for a bundle of another server; after any other error the next call
// continues where this one stopped.
func (a *Agent) deliver(ctx context.Context) error {
	b := a.state.Current
	if b.Server != a.opt.Client.BaseURL() {
		return fmt.Errorf("%w: it was for %s", errOtherServer, b.Server)
	}
	if b.Stage == stageFrozen {
		if err := a.sendMembers(ctx, b); err != nil {
			return err
		}
		next := *b
		next.Stage = stageSealing
		if err := a.commit("sealing", func(s *state) { s.Current = &next }); err != nil {
			return err
		}
		b = &next
	}
	if err := a.seal(ctx, b); err != nil {
		return err
	}
	return a.finishBundle(b)
}

var (
	// errOtherServer reports that the server has changed since the bundle was begun.
	errOtherServer = errors.New("the server is another one now")
	// errRemoteDiffers reports that the server has other content at the member's path.
	errRemoteDiffers = errors.New("the server has something else in its place")
)

// sendMembers uploads the files of the bundle that the server does not have yet into the bundle's
// folder, which it makes if needed. Small files go in batches. It returns nil when the server has
// every file as it was frozen, and the first error else; it may then be repeated.
func (a *Agent) sendMembers(ctx context.Context, b *outgoing) error {
	progress := a.newProgress(b) // first, so that the status shows the attempt
	folder := b.folder()
	node, created, err := a.opt.Client.MakeFolder(ctx, folder)
	if err != nil {
		return err
	}
	a.recordContact()
	known := map[string]client.Node{}
	if !created {
		for child, err := range a.opt.Client.AllChildren(ctx, node.ID) {
			if err != nil {
				return err
			}
			known[child.Name] = child
		}
	}
	if err := a.hook("folder"); err != nil {
		return err
	}
	batches, alone := b.batches(known)
	left := make([][]int, len(batches))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(maxBatches, a.opt.Parallel))
	for i, batch := range batches {
		g.Go(func() (err error) {
			left[i], err = a.sendMany(gctx, b, batch, progress)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return a.sendEach(ctx, b, append(slices.Concat(left...), alone...), known, progress)
}

// sendEach sends the members with these indexes individually, Options.Parallel at a time, and skips
// those that the server has according to known. The first failure, a *memberError, stops the
// others.
func (a *Agent) sendEach(ctx context.Context, b *outgoing, members []int, known map[string]client.Node, progress *progress) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(a.opt.Parallel)
	for _, n := range members {
		g.Go(func() error {
			if gctx.Err() != nil {
				return context.Cause(gctx)
			}
			if err := a.sendMember(gctx, b, n, known, progress); err != nil {
				return &memberError{n, err}
			}
			return a.hook("member")
		})
	}
	return g.Wait()
}

// folder returns the path of the bundle's folder in the drive.
func (b *outgoing) folder() string { return bundle.Folder(b.Manifest.Source, b.Manifest.ID).String() }

// sendMember sends member n unless it is in known. It fails with errChanged if the file is not as
// frozen, and with errRemoteDiffers if the server has other content.
func (a *Agent) sendMember(ctx context.Context, b *outgoing, n int, known map[string]client.Node, p *progress) error {
	m, from := b.Manifest.Members[n], b.Files[n]
	file, err := a.openUnchanged(from.Path, from.Size, from.Mtime)
	if err != nil {
		return err
	}
	defer closeQuietly(file)
	if there, ok := known[m.Name]; ok {
		if there.Size != m.Size || there.Digest() != from.BLAKE3 {
			return errRemoteDiffers
		}
		p.memberDone(n)
		return nil
	}
	src := client.Source{
		Name: m.Name, Size: from.Size, Mtime: from.Mtime,
		Open: func() (client.ReadAtCloser, error) { return unclosableFile{file}, nil },
		Check: func() error {
			if !isUnchanged(file, from.Size, from.Mtime) {
				return errChanged
			}
			return nil
		},
	}
	res, err := a.uploader.Put(ctx, src, path.Join(b.folder(), m.Name), client.PutOptions{
		Conflict: client.Fail, Parents: true, MIME: m.Type, New: true, Progress: p.forMember(n),
	})
	if err != nil {
		return err
	}
	if res.Node.Size != m.Size || res.Node.Digest() != from.BLAKE3 {
		return errChanged
	}
	a.recordContact()
	p.memberDone(n)
	return nil
}

// unclosableFile is an open file whose Close does nothing, because the opener closes it.
type unclosableFile struct{ *os.File }

// Close does nothing, because the agent closes the file itself.
func (unclosableFile) Close() error { return nil }

// seal sends the manifest as meta.json, which seals the bundle. An equal meta.json on the server,
// from an attempt whose reply was lost, is success. Another meta.json fails with errRemoteDiffers.
func (a *Agent) seal(ctx context.Context, b *outgoing) error {
	raw, err := b.Manifest.Encode()
	if err != nil {
		return err
	}
	src := client.Source{
		Name: string(bundle.MetaName), Size: int64(len(raw)), Mtime: b.Manifest.CreatedAt,
		Open: func() (client.ReadAtCloser, error) { return memoryFile{bytes.NewReader(raw)}, nil },
	}
	_, err = a.uploader.Put(ctx, src, path.Join(b.folder(), string(bundle.MetaName)), client.PutOptions{Conflict: client.Fail, Parents: true})
	if client.IsCode(err, client.CodeNameTaken) {
		return errRemoteDiffers
	}
	if err != nil {
		return err
	}
	a.recordContact()
	return a.hook("sealed")
}

// memoryFile is a file in memory.
type memoryFile struct{ *bytes.Reader }

// Close does nothing.
func (memoryFile) Close() error { return nil }

// finishBundle records that the bundle is sent and that its files are to be moved. The files are
// not moved yet. If the state cannot be written, the bundle stays current and is delivered again.
func (a *Agent) finishBundle(b *outgoing) error {
	m, now := &b.Manifest, time.Now()
	to := path.Join(sentDir, now.Format(time.DateOnly), m.ID)
	moves := movesOf(b.Files, b.Markers, to)
	err := a.commit("end", func(s *state) {
		s.Current, s.Moves = nil, slices.Concat(s.Moves, moves)
		s.addEnded(endedOf(b, Sent, "", now))
		s.Totals.Bundles++
		s.Totals.Files += int64(len(m.Members))
		s.Totals.Documents += int64(m.Declared())
		s.Totals.Bytes += m.Size()
	})
	if err == nil {
		a.live.Sending, a.polls, a.nextPoll = nil, 0, time.Now().Add(minPoll)
		a.log.Info("bundle sent", "bundle", m.ID, "files", len(m.Members), "documents", m.Declared(), "bytes", m.Size())
	}
	return err
}

// endedOf returns the record of a bundle that ended with the given outcome.
func endedOf(b *outgoing, o Outcome, why string, now time.Time) BundleResult {
	m := &b.Manifest
	return BundleResult{
		ID: m.ID, Source: m.Source, Outcome: o, Reason: why, Files: len(m.Members), Documents: m.Declared(), Size: m.Size(),
		At: now.UTC().Truncate(time.Millisecond),
	}
}

// handleSendError decides what follows a failed attempt: it gives the bundle up, so that its files
// go in other bundles (refreeze), or schedules the next attempt in a.nextTry. Once all members are
// on the server, it gives the bundle up only if the server or its content is another one. It fails
// only if the state cannot be written.
func (a *Agent) handleSendError(err error) error {
	b := a.state.Current
	member, _ := errors.AsType[*memberError](err)
	_, local := errors.AsType[*fs.PathError](err)
	switch {
	case b.Stage == stageSealing && !errors.Is(err, errRemoteDiffers) && !errors.Is(err, errOtherServer):
	case errors.Is(err, errRemoteDiffers), errors.Is(err, errOtherServer):
		return a.refreeze(err.Error(), nil)
	case member == nil:
	case errors.Is(err, errChanged), errors.Is(err, client.ErrChanged), local:
		return a.refreeze(fmt.Sprintf("%s: %s", b.Files[member.n].Path, errorText(member.err)), nil)
	case isPermanentRefusal(err):
		return a.refreeze(fmt.Sprintf("%s: %s", b.Files[member.n].Path, errorText(member.err)), member)
	}
	a.failures++
	pause := a.backoff(err)
	a.sendErr, a.nextTry = err, time.Now().Add(pause)
	a.log.Warn("cannot send the bundle; trying again", "bundle", b.Manifest.ID, "in", pause.Round(time.Second), "tries", a.failures, "error", err)
	return nil
}

// backoff returns the delay before the next attempt after a.failures failed ones, at least 1; it
// doubles with each. The limit is higher for errors that only a person can fix, such as a full
// quota.
func (a *Agent) backoff(err error) time.Duration {
	most := maxBackoff
	if client.IsCode(err, client.CodeQuota, client.CodeDiskFull, client.CodeForbidden, client.CodeUnauthenticated) {
		most = manualBackoff
	}
	return min(most, minBackoff<<min(a.failures-1, 10))
}

// isPermanentRefusal reports whether the server will never accept this member, because the error is
// about the member itself. Other refusals are about the account, the token or the moment.
func isPermanentRefusal(err error) bool {
	return client.IsCode(err, client.CodeTooLarge, client.CodeBadName, client.CodeMediaType)
}

// refreeze gives up the current bundle, so that its files are sent in other bundles. If member is
// not nil, its group is moved to failed/ instead. The bundle's folder on the server is deleted
// later, unless the bundle may be sealed.
func (a *Agent) refreeze(why string, member *memberError) error {
	b, now := a.state.Current, time.Now()
	var moves []move
	failed := 0
	if member != nil {
		group := b.Files[member.n].Group
		moves, failed = a.memberFailureMoves(b, group, why, now), b.filesInGroup(group)
	}
	err := a.commit("refreeze", func(s *state) {
		s.Current, s.Moves = nil, slices.Concat(s.Moves, moves)
		if b.Stage == stageFrozen { // otherwise it may be sealed and must stay
			s.Litter = append(slices.Clone(s.Litter), remoteFolder{b.Server, b.folder()})
		}
		s.addEnded(endedOf(b, Refrozen, why, now))
		s.Totals.Failed += int64(failed)
	})
	if err != nil {
		return err
	}
	for _, file := range b.Files {
		delete(a.observed, file.Path) // scan it again
	}
	a.failures, a.nextTry, a.sendErr, a.live.Sending, a.rescan = 0, time.Time{}, nil, nil, true
	a.failedFiles += failed
	a.log.Warn("bundle given up before it was sealed; its files are sent in another one", "bundle", b.Manifest.ID, "why", why)
	return nil
}

// filesInGroup returns the number of files of a group.
func (b *outgoing) filesInGroup(group int) (n int) {
	for _, file := range b.Files {
		if file.Group == group {
			n++
		}
	}
	return n
}

// deleteLitter deletes the folders of given-up bundles on the server, for good. If the server is
// unavailable, it returns nil and tries again later. A folder that cannot be deleted otherwise is
// logged and forgotten. It fails only if the state cannot be written.
func (a *Agent) deleteLitter(ctx context.Context) error {
	for _, l := range a.state.Litter {
		if l.Server == a.opt.Client.BaseURL() {
			n, err := a.opt.Client.NodeAt(ctx, l.Path)
			if err == nil {
				err = a.opt.Client.DeleteNode(ctx, n.ID, true)
			}
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the next run tries again
			}
			if err != nil && !client.IsCode(err, client.CodeNotFound, client.CodeGone) {
				if client.CodeOf(err) == "" || client.IsCode(err, client.CodeUnauthenticated) {
					return nil // unavailable; sending the next bundle reports it
				}
				a.log.Warn("cannot delete the folder of a given-up bundle; delete it on the server", "folder", l.Path, "error", err)
			}
		}
		err := a.commit("tidy", func(s *state) {
			s.Litter = slices.DeleteFunc(slices.Clone(s.Litter), func(other remoteFolder) bool { return other == l })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// progress counts the sent bytes and members of a bundle. It is safe for concurrent use.
type progress struct {
	bytes    []atomic.Int64 // of each member
	files    atomic.Int64
	sizes    []bundle.Member
	report   func(files int, bytes int64)
	setError func(error) // called with the error before a retry, and with nil on progress
}

// newProgress returns the progress of a new attempt to send b and shows the attempt in the status.
func (a *Agent) newProgress(b *outgoing) *progress {
	p := &progress{bytes: make([]atomic.Int64, len(b.Files)), sizes: b.Manifest.Members}
	p.report, p.setError = a.live.startBundle(b, a), a.live.setRequestError
	return p
}

// forMember returns the client.Progress for member n.
func (p *progress) forMember(n int) client.Progress {
	return func(ev client.Event) {
		p.bytes[n].Store(ev.Bytes)
		p.setError(ev.Err)
		p.update()
	}
}

// memberDone marks member n as sent.
func (p *progress) memberDone(n int) {
	p.bytes[n].Store(p.sizes[n].Size)
	p.files.Add(1)
	p.update()
}

// update reports the sums over all members: files sent and bytes.
func (p *progress) update() {
	var bytes int64
	for n := range p.bytes {
		bytes += p.bytes[n].Load()
	}
	p.report(int(p.files.Load()), bytes)
}
