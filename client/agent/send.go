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

	"smartdrive/client"
	"smartdrive/internal/intake/bundle"
)

// memberError is why one member could not be sent.
type memberError struct {
	n   int // its number
	err error
}

func (e *memberError) Error() string { return e.err.Error() }
func (e *memberError) Unwrap() error { return e.err }

// send takes the bundle on its way to its end, or as far as it gets. An error is one of this
// computer; what the server or the network has against it is in a.trouble.
func (a *Agent) send(ctx context.Context) error {
	a.renew(a.trouble)
	err := a.deliver(ctx)
	if errors.Is(err, errCrash) || ctx.Err() != nil {
		return err
	}
	if err == nil {
		a.fails, a.nextTry, a.trouble = 0, time.Time{}, nil
		return nil
	}
	return a.judge(err)
}

// deliver sends what is still missing: members, then the manifest.
func (a *Agent) deliver(ctx context.Context) error {
	f := a.state.Current
	if f.Server != a.opt.Client.BaseURL() {
		return fmt.Errorf("%w: it was for %s", errOtherServer, f.Server)
	}
	if f.Stage == stageFrozen {
		if err := a.sendMembers(ctx, f); err != nil {
			return err
		}
		next := *f
		next.Stage = stageSealing
		if err := a.commit("sealing", func(s *state) { s.Current = &next }); err != nil {
			return err
		}
		f = &next
	}
	if err := a.seal(ctx, f); err != nil {
		return err
	}
	return a.sealed(f)
}

var (
	errOtherServer = errors.New("the server is another one now")
	errOtherThere  = errors.New("the server has something else in its place")
)

// sendMembers returns when the server has every member as it was frozen.
func (a *Agent) sendMembers(ctx context.Context, f *flight) error {
	progress := a.newProgress(f) // before anything can fail: the status counts the tries
	folder := f.folder()
	node, created, err := a.opt.Client.MakeFolder(ctx, folder)
	if err != nil {
		return err
	}
	a.contact()
	known := map[string]client.Node{}
	if !created {
		for child, err := range a.opt.Client.AllChildren(ctx, node.ID) {
			if err != nil {
				return err
			}
			known[child.Name] = child
		}
	}
	if err := a.at("folder"); err != nil {
		return err
	}
	batches, alone := f.batches(known)
	left := make([][]int, len(batches))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(batchesMost, a.opt.Parallel))
	for i, batch := range batches {
		g.Go(func() (err error) {
			left[i], err = a.sendMany(gctx, f, batch, progress)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return a.sendEach(ctx, f, append(slices.Concat(left...), alone...), known, progress)
}

// sendEach sends members one by one, some at a time.
func (a *Agent) sendEach(ctx context.Context, f *flight, members []int, known map[string]client.Node, progress *progress) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(a.opt.Parallel)
	for _, n := range members {
		g.Go(func() error {
			if gctx.Err() != nil {
				return context.Cause(gctx)
			}
			if err := a.sendMember(gctx, f, n, known, progress); err != nil {
				return &memberError{n, err}
			}
			return a.at("member")
		})
	}
	return g.Wait()
}

func (f *flight) folder() string { return bundle.Folder(f.Manifest.Source, f.Manifest.ID).String() }

// sendMember sends one member unless the server has it, and compares what it has with what was
// frozen.
func (a *Agent) sendMember(ctx context.Context, f *flight, n int, known map[string]client.Node, p *progress) error {
	m, from := f.Manifest.Members[n], f.Files[n]
	file, err := a.openAs(from.Path, from.Size, from.Mtime)
	if err != nil {
		return err
	}
	defer letGo(file)
	if there, ok := known[m.Name]; ok {
		if there.Size != m.Size || there.Digest() != from.BLAKE3 {
			return errOtherThere
		}
		p.done(n)
		return nil
	}
	src := client.Source{
		Name: m.Name, Size: from.Size, Mtime: from.Mtime,
		Open: func() (client.ReadAtCloser, error) { return borrowed{file}, nil },
		Check: func() error {
			if !same(file, from.Size, from.Mtime) {
				return errChanged
			}
			return nil
		},
	}
	res, err := a.up.Put(ctx, src, path.Join(f.folder(), m.Name), client.PutOptions{
		Conflict: client.Fail, Parents: true, MIME: m.Type, New: true, Progress: p.of(n),
	})
	if err != nil {
		return err
	}
	if res.Node.Size != m.Size || res.Node.Digest() != from.BLAKE3 {
		return errChanged
	}
	a.contact()
	p.done(n)
	return nil
}

// borrowed is a file that its owner closes.
type borrowed struct{ *os.File }

func (borrowed) Close() error { return nil }

// seal sends the manifest. That it is there already, by a try whose reply was lost, is as good.
func (a *Agent) seal(ctx context.Context, f *flight) error {
	raw, err := f.Manifest.Encode()
	if err != nil {
		return err
	}
	src := client.Source{
		Name: string(bundle.MetaName), Size: int64(len(raw)), Mtime: f.Manifest.CreatedAt,
		Open: func() (client.ReadAtCloser, error) { return manifest{bytes.NewReader(raw)}, nil },
	}
	_, err = a.up.Put(ctx, src, path.Join(f.folder(), string(bundle.MetaName)), client.PutOptions{Conflict: client.Fail, Parents: true})
	if client.IsCode(err, client.CodeNameTaken) {
		return errOtherThere
	}
	if err != nil {
		return err
	}
	a.contact()
	return a.at("sealed")
}

type manifest struct{ *bytes.Reader }

func (manifest) Close() error { return nil }

// sealed ends the bundle that was sent: from now on its files are to be moved.
func (a *Agent) sealed(f *flight) error {
	m, now := &f.Manifest, time.Now()
	to := path.Join(sentDir, now.Format(time.DateOnly), m.ID)
	moves := movesOf(f.Files, f.Markers, to)
	err := a.commit("end", func(s *state) {
		s.Current, s.Moves = nil, slices.Concat(s.Moves, moves)
		s.end(endedOf(f, Sent, "", now))
		s.Totals.Bundles++
		s.Totals.Files += int64(len(m.Members))
		s.Totals.Documents += int64(m.Declared())
		s.Totals.Bytes += m.Size()
	})
	if err == nil {
		a.live.Sending, a.asks, a.nextAsk = nil, 0, time.Now().Add(firstAsk)
		a.log.Info("sent", "bundle", m.ID, "files", len(m.Members), "documents", m.Declared(), "bytes", m.Size())
	}
	return err
}

func endedOf(f *flight, o Outcome, why string, now time.Time) Ended {
	m := &f.Manifest
	return Ended{
		ID: m.ID, Source: m.Source, Outcome: o, Reason: why, Files: len(m.Members), Documents: m.Declared(), Size: m.Size(),
		At: now.UTC().Truncate(time.Millisecond),
	}
}

// judge decides what an error of sending means: that the bundle is to be made again, or that it
// waits.
func (a *Agent) judge(err error) error {
	f := a.state.Current
	member, _ := errors.AsType[*memberError](err)
	_, local := errors.AsType[*fs.PathError](err)
	switch {
	case f.Stage == stageSealing && !errors.Is(err, errOtherThere) && !errors.Is(err, errOtherServer):
	case errors.Is(err, errOtherThere), errors.Is(err, errOtherServer):
		return a.refreeze(err.Error(), nil)
	case member == nil:
	case errors.Is(err, errChanged), errors.Is(err, client.ErrChanged), local:
		return a.refreeze(fmt.Sprintf("%s: %s", f.Files[member.n].Path, reason(member.err)), nil)
	case neverTaken(err):
		return a.refreeze(fmt.Sprintf("%s: %s", f.Files[member.n].Path, reason(member.err)), member)
	}
	a.fails++
	pause := a.pause(err)
	a.trouble, a.nextTry = err, time.Now().Add(pause)
	a.log.Warn("cannot send, trying again", "bundle", f.Manifest.ID, "in", pause.Round(time.Second), "tries", a.fails, "error", err)
	return nil
}

// pause is how long to wait after a.fails tries.
func (a *Agent) pause(err error) time.Duration {
	most := mostPause
	if client.IsCode(err, client.CodeQuota, client.CodeDiskFull, client.CodeForbidden, client.CodeUnauthenticated) {
		most = longPause
	}
	return min(most, firstPause<<min(a.fails-1, 10))
}

// neverTaken reports that the server will not take this member, however often it is sent: it says
// so of the member itself. All other refusals are about the account, the token or the moment.
func neverTaken(err error) bool {
	return client.IsCode(err, client.CodeTooLarge, client.CodeBadName, client.CodeMediaType)
}

// refreeze gives up the bundle on its way, which is not sealed; its files go in other ones. Where
// the server refuses a member for good, its group goes to failed/.
func (a *Agent) refreeze(why string, member *memberError) error {
	f, now := a.state.Current, time.Now()
	var moves []move
	failed := 0
	if member != nil {
		group := f.Files[member.n].Group
		moves, failed = a.failMoves(f, group, why, now), f.inGroup(group)
	}
	err := a.commit("refreeze", func(s *state) {
		s.Current, s.Moves = nil, slices.Concat(s.Moves, moves)
		if f.Stage == stageFrozen { // else it may be sealed: then it stays
			s.Litter = append(slices.Clone(s.Litter), place{f.Server, f.folder()})
		}
		s.end(endedOf(f, Refrozen, why, now))
		s.Totals.Failed += int64(failed)
	})
	if err != nil {
		return err
	}
	for _, file := range f.Files {
		delete(a.seen, file.Path) // so that it is looked at again
	}
	a.fails, a.nextTry, a.trouble, a.live.Sending, a.anew = 0, time.Time{}, nil, nil, true
	a.failedNow += failed
	a.log.Warn("the bundle was given up before it was sealed; its files go in another one", "bundle", f.Manifest.ID, "why", why)
	return nil
}

func (f *flight) inGroup(group int) (n int) {
	for _, file := range f.Files {
		if file.Group == group {
			n++
		}
	}
	return n
}

// tidy deletes what bundles that were given up have left on the server. It is no harm if that fails
// for long.
func (a *Agent) tidy(ctx context.Context) error {
	for _, l := range a.state.Litter {
		if l.Server == a.opt.Client.BaseURL() {
			n, err := a.opt.Client.NodeAt(ctx, l.Path)
			if err == nil {
				err = a.opt.Client.DeleteNode(ctx, n.ID, true)
			}
			if ctx.Err() != nil {
				return nil //nolint:nilerr // next time
			}
			if err != nil && !client.IsCode(err, client.CodeNotFound, client.CodeGone) {
				if client.CodeOf(err) == "" || client.IsCode(err, client.CodeUnauthenticated) {
					return nil // the server is away; the next bundle will say so
				}
				a.log.Warn("a folder that is of no use stays on the server", "folder", l.Path, "error", err)
			}
		}
		err := a.commit("tidy", func(s *state) {
			s.Litter = slices.DeleteFunc(slices.Clone(s.Litter), func(other place) bool { return other == l })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// progress counts what of a bundle has been sent.
type progress struct {
	bytes []atomic.Int64 // of each member
	files atomic.Int64
	sizes []bundle.Member
	tell  func(files int, bytes int64)
	stuck func(error) // what is waited for; nil: it goes on
}

func (a *Agent) newProgress(f *flight) *progress {
	p := &progress{bytes: make([]atomic.Int64, len(f.Files)), sizes: f.Manifest.Members}
	p.tell, p.stuck = a.live.sending(f, a), a.live.stuck
	return p
}

func (p *progress) of(n int) client.Progress {
	return func(ev client.Event) {
		p.bytes[n].Store(ev.Bytes)
		p.stuck(ev.Err)
		p.sum()
	}
}

func (p *progress) done(n int) {
	p.bytes[n].Store(p.sizes[n].Size)
	p.files.Add(1)
	p.sum()
}

func (p *progress) sum() {
	var bytes int64
	for n := range p.bytes {
		bytes += p.bytes[n].Load()
	}
	p.tell(int(p.files.Load()), bytes)
}
