package batch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/upload"
)

func readAll(body io.Reader, size int64) (io.Reader, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(body, b); err != nil {
		return nil, err
	}
	return bytes.NewReader(b), nil
}

// commitAll does the items, group by group.
func (r *run) commitAll(ctx context.Context) error {
	var next *pending
	for {
		var group []*pending
		if group, next = r.gather(next); len(group) == 0 {
			return nil
		}
		whole, broken, moment := r.split(ctx, group)
		err := guarded(func() error { return r.do(ctx, whole) })
		if err == nil {
			err = guarded(func() error { return r.answer(ctx, whole) })
		}
		if err == nil {
			err = moment
		}
		if err == nil {
			continue
		}
		if next != nil {
			broken = append(broken, next)
		}
		return errors.Join(err, r.discard(ctx, broken...))
	}
}

// split returns the items before the first one that failed for a reason of the moment, which ends
// the batch: those behind it must not be done before it. moment is its error; nil: there is none.
func (r *run) split(ctx context.Context, group []*pending) (whole, broken []*pending, moment error) {
	for i, p := range group {
		p.await()
		if p.Op == Move && p.done == nil && p.Err == nil {
			p.Err = guarded(func() error { return r.measure(ctx, p) })
		}
		if p.Op == Claim && p.done == nil && p.Err == nil {
			p.Err = guarded(func() error { return upload.CheckOwned(ctx, r.opt.Uploads, r.who, p.File) })
		}
		if passing(p.Err) {
			return group[:i], group[i:], p.Err
		}
	}
	return group, nil, nil
}

// gather returns what comes without a pause, at least one item, and the first item of the group
// after it, where that is known.
func (r *run) gather(first *pending) (group []*pending, next *pending) {
	if first == nil {
		if first = <-r.ahead; first == nil {
			return nil, nil
		}
	}
	group = append(group, first)
	size := first.File.Size
	late, until := time.NewTimer(pause), time.Now().Add(longest)
	defer late.Stop()
	for len(group) < int(r.most.Load()) && size < maxBytes {
		p := r.soon(late, until)
		switch {
		case p == nil:
			return group, nil
		case p.alone():
			return group, p
		}
		group = append(group, p)
		size += p.File.Size
	}
	return group, nil
}

// soon returns the next item, nil: there is none, or none yet.
func (r *run) soon(late *time.Timer, until time.Time) *pending {
	select {
	case p := <-r.ahead:
		return p
	default:
	}
	late.Reset(min(pause, time.Until(until)))
	select {
	case p := <-r.ahead:
		return p
	case <-late.C:
		return nil
	}
}

// do does a group. Its error is why it may not be there.
func (r *run) do(ctx context.Context, group []*pending) error {
	var laid []*upload.Laid
	fresh := make([]*pending, 0, len(group))
	for _, p := range group {
		switch {
		case p.done != nil:
			if p.done.Mark != p.mark {
				p.done, p.Err = nil, drive.Fail(drive.KeyReused)
			}
		case p.Err == nil:
			fresh = append(fresh, p)
		}
		if p.laid != nil {
			laid = append(laid, p.laid)
		}
	}
	err := guarded(func() error { return upload.SettleLaid(ctx, r.opt.Uploads, laid) })
	if err == nil && len(fresh) > 0 {
		err = r.commit(ctx, fresh)
	}
	return errors.Join(err, r.opt.Uploads.EndLaid(ctx, err, laid))
}

// commit writes a group. Of what panicked outside the transaction's function nobody knows whether
// it was committed.
func (r *run) commit(ctx context.Context, fresh []*pending) (err error) {
	whole := false
	panicked := guarded(func() error {
		err = r.opt.Turns.Do(ctx, r.who.Account, func() error {
			return r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return r.write(ctx, tx, fresh) })
		})
		whole = true
		return nil
	})
	if !whole {
		return drive.Wrap(errors.Join(sqldb.ErrInDoubt, panicked), drive.Internal)
	}
	return err
}

// pace makes the next transactions shorter where one of n items that began at a time was slow, and
// longer again where a whole one was not: others wait for the writer meanwhile.
func (b *Batches) pace(n int, began time.Time) {
	most := b.most.Load()
	switch took := time.Since(began); {
	case took > slowGroup:
		b.most.CompareAndSwap(most, max(minGroup, most/2))
	case took < slowGroup/2 && int64(n) >= most:
		b.most.CompareAndSwap(most, min(maxGroup, most*2))
	}
}

// measure looks at what is below a node that goes somewhere. What is not there is the transaction's
// to refuse.
func (r *run) measure(ctx context.Context, p *pending) error {
	id, parent, name := p.Node, p.Change.Parent, p.Change.Name
	var err error
	if p.At != nil {
		id, err = r.at(ctx, r.opt.DB, p.At)
	}
	if err == nil && p.To != nil {
		var above drive.Path
		above, name, _ = p.To.Split()
		parent, err = r.at(ctx, r.opt.DB, above)
	}
	if err == nil {
		p.below, err = r.opt.Files.Below(ctx, r.opt.DB, r.who, id, parent, name)
	}
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	return err
}

func (r *run) at(ctx context.Context, q sqldb.Querier, path drive.Path) (drive.NodeID, error) {
	n, err := r.opt.Tree.Resolve(ctx, q, r.who.Account, path)
	return n.ID, err
}

// write is the transaction of a group.
func (r *run) write(ctx context.Context, tx *sqldb.Tx, group []*pending) error {
	tx.ActFor(r.who)
	if err := r.series.Hold(ctx, tx); err != nil {
		return err
	}
	if err := r.opt.Ledger.Lock(ctx, tx, r.who.Account); err != nil {
		return err
	}
	defer r.pace(len(group), time.Now())
	for i, p := range group {
		p.node, p.created, p.failed, p.behind = tree.Node{}, false, p.Err, i > 0
	}
	for i := 0; i < len(group); {
		n := puts(group[i:])
		if n > 0 {
			if err := r.publish(ctx, tx, group[i:i+n]); err != nil {
				return err
			}
			i += n
			continue
		}
		if p := group[i]; p.failed == nil {
			failed, err := tx.Try(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return r.act(ctx, tx, p) })
			if err != nil {
				return err
			}
			if passing(failed) {
				return failed
			}
			p.failed = failed
		}
		i++
	}
	return r.keep(ctx, tx, group)
}

// puts is how many items from the first on are files that have come.
func puts(group []*pending) (n int) {
	for n < len(group) && group[n].laid != nil {
		n++
	}
	return n
}

func (r *run) publish(ctx context.Context, tx *sqldb.Tx, group []*pending) error {
	laid := make([]*upload.Laid, len(group))
	for i, p := range group {
		laid[i] = p.laid
	}
	if err := r.opt.Uploads.PublishLaid(ctx, tx, r.who.Account, laid); err != nil {
		return err
	}
	for _, p := range group {
		if p.node, p.created, p.failed = p.laid.Outcome(); passing(p.failed) {
			return p.failed
		}
	}
	return nil
}

// keep writes down what was done, for a repeat.
func (r *run) keep(ctx context.Context, tx *sqldb.Tx, group []*pending) (err error) {
	if r.series == nil {
		return nil
	}
	var done []idem.Done
	for _, p := range group {
		d := idem.Done{Item: p.N, Mark: p.mark}
		switch {
		case p.failed == nil:
			d.Created, d.Node = p.created, p.node.ID
		case decided(p.failed):
			if d.Refusal, err = packRefusal(p.failed); err != nil {
				return err
			}
		default:
			continue
		}
		done = append(done, d)
	}
	return r.series.Keep(ctx, tx, done)
}

// act does to one item what is wanted, within the group's transaction.
func (r *run) act(ctx context.Context, tx *sqldb.Tx, p *pending) (err error) {
	switch p.Op {
	case Folder:
		p.created = true
		p.node, err = r.opt.Files.MakeFolder(ctx, tx, r.who, p.Folder)
	case Claim:
		var placed tree.Placed
		placed, err = upload.LinkOwned(ctx, r.opt.Uploads, tx, r.who, p.File, p.If)
		p.node, p.created = placed.Node, placed.Created
	case Move:
		p.node, err = r.move(ctx, tx, p)
	case Trash:
		id := p.Node
		if p.At != nil {
			id, err = r.at(ctx, tx, p.At)
		}
		if err == nil {
			p.node, err = r.opt.Tree.Trash(ctx, tx, r.who.Account, id, p.Rev)
		}
	case Put:
		err = errors.New("a file without content")
	}
	return err
}

func (r *run) move(ctx context.Context, tx *sqldb.Tx, p *pending) (n tree.Node, err error) {
	id := p.Node
	e := tree.Edit{Parent: p.Change.Parent, Name: p.Change.Name, MTime: p.Change.MTime, Conflict: p.Change.Conflict, Rev: p.Change.Expect.Rev, Below: p.below}
	if p.At != nil {
		id, err = r.at(ctx, tx, p.At)
	}
	if err == nil && p.To != nil {
		var above drive.Path
		above, e.Name, _ = p.To.Split()
		e.Parent, err = r.at(ctx, tx, above)
	}
	if err == nil && p.behind {
		e.Below, err = r.opt.Files.Below(ctx, tx, r.who, id, e.Parent, e.Name)
	}
	if err != nil {
		return tree.Node{}, err
	}
	if n, err = r.opt.Tree.Edit(ctx, tx, r.who.Account, id, e); err == nil {
		err = r.opt.Files.Moved(ctx, tx, n)
	}
	return n, err
}

// answer shows what became of a group that is there.
func (r *run) answer(ctx context.Context, group []*pending) error {
	nodes, err := r.nodes(ctx, group)
	if err != nil {
		return err
	}
	views, err := r.opt.Files.ViewMany(ctx, r.opt.DB.For(r.who.Account), nodes, digestsOf(group))
	if err != nil {
		return err
	}
	answers := make([]Answer, len(group))
	for i, p := range group {
		a := Answer{N: p.N, Op: p.Op, Created: p.created, Err: p.failed}
		id := p.node.ID
		switch {
		case p.done != nil:
			a.Created, a.Replayed, id = p.done.Created, true, p.done.Node
			if len(p.done.Refusal) > 0 {
				a.Err = unpackRefusal(p.done.Refusal)
			}
		case p.Err != nil:
			a.Err = p.Err
		}
		if view, ok := views[id]; ok && a.Err == nil && p.Op != Trash {
			a.Node = &view
		}
		answers[i] = a
	}
	return r.tell(answers)
}

// digestsOf are those of contents that a group has brought, as far as they are known: who brings
// one once more may bring digests of it that the first one did not.
func digestsOf(group []*pending) map[drive.BlobID]digest.Set {
	known := map[drive.BlobID]digest.Set{}
	var again []drive.BlobID
	for _, p := range group {
		if p.laid == nil || p.failed != nil {
			continue
		}
		if all := p.laid.Digests(); all != nil {
			known[p.node.Blob] = all
		} else {
			again = append(again, p.node.Blob)
		}
	}
	for _, id := range again {
		delete(known, id)
	}
	return known
}

// nodes are those that a group has made or changed, and those that attempts before it have, as they
// are now.
func (r *run) nodes(ctx context.Context, group []*pending) (nodes []tree.Node, err error) {
	var before []drive.NodeID
	for _, p := range group {
		switch {
		case p.Op == Trash, p.Err != nil, p.failed != nil:
		case p.done != nil:
			before = append(before, p.done.Node)
		default:
			nodes = append(nodes, p.node)
		}
	}
	found, err := r.opt.Tree.FindMany(ctx, r.opt.DB.For(r.who.Account), r.who.Account, before...)
	if err != nil {
		return nil, err
	}
	for _, n := range found {
		nodes = append(nodes, n)
	}
	return nodes, nil
}
