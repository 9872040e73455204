package batch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
)

// readAll reads exactly size bytes of body into memory and returns a reader of them. It fails if
// body is shorter.
func readAll(body io.Reader, size int64) (io.Reader, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(body, b); err != nil {
		return nil, err
	}
	return bytes.NewReader(b), nil
}

// commitAll executes the items group by group, each in one transaction, and answers each group once
// it is committed. It returns nil after the last item. On an error it discards the contents of the
// items that it will not execute.
func (r *run) commitAll(ctx context.Context) error {
	var next *pending
	for {
		var group []*pending
		if group, next = r.gather(next); len(group) == 0 {
			return nil
		}
		whole, broken, moment := r.split(ctx, group)
		err := guarded(func() error { return r.execute(ctx, whole) })
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

// split waits for the items' contents and does the checks that must precede the transaction. It
// returns as whole the items before the first one with a transient error, as broken the rest, and
// as moment that error. moment ends the batch, because later items must not be done before the
// failed one. If there is none, whole is the group and moment is nil.
func (r *run) split(ctx context.Context, group []*pending) (whole, broken []*pending, moment error) {
	for i, p := range group {
		p.await()
		if p.Op == Move && p.done == nil && p.Err == nil {
			p.Err = guarded(func() error { return r.measure(ctx, p) })
		}
		if p.Op == Claim && p.done == nil && p.Err == nil {
			p.Err = guarded(func() error { return upload.CheckOwned(ctx, r.opt.Uploads, r.who, p.File) })
		}
		if transient(p.Err) {
			return group[:i], group[i:], p.Err
		}
	}
	return group, nil, nil
}

// gather returns the next group: at least one item, and further ones that arrive without a pause.
// first is an item that an earlier call read for this group; nil: read one. next is an item read
// for the following group; nil: none. An empty group means that the batch has ended.
func (r *run) gather(first *pending) (group []*pending, next *pending) {
	if first == nil {
		if first = <-r.ahead; first == nil {
			return nil, nil
		}
	}
	group = append(group, first)
	size := first.File.Size
	late, until := time.NewTimer(maxGap), time.Now().Add(maxWait)
	defer late.Stop()
	for len(group) < int(r.groupSize.Load()) && size < maxBytes {
		p := r.nextWithin(late, until)
		switch {
		case p == nil:
			return group, nil
		case p.startsGroup():
			return group, p
		}
		group = append(group, p)
		size += p.File.Size
	}
	return group, nil
}

// nextWithin returns the next item of the batch; nil if the batch has ended or none arrives within
// maxGap or before until. late is a timer that the caller lends.
func (r *run) nextWithin(late *time.Timer, until time.Time) *pending {
	select {
	case p := <-r.ahead:
		return p
	default:
	}
	late.Reset(min(maxGap, time.Until(until)))
	select {
	case p := <-r.ahead:
		return p
	case <-late.C:
		return nil
	}
}

// execute executes a group in one transaction. If it returns an error the group may or may not have
// been committed, and the batch ends.
func (r *run) execute(ctx context.Context, group []*pending) error {
	var laid []*upload.UnsyncedFile
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
	err := guarded(func() error { return upload.SyncFiles(ctx, r.opt.Uploads, laid) })
	if err == nil && len(fresh) > 0 {
		err = r.commit(ctx, fresh)
	}
	return errors.Join(err, r.opt.Uploads.ReleaseUnsynced(ctx, err, laid))
}

// commit runs the transaction that writes the results of a group; fresh are the items that it must
// execute. If the code around the transaction panics, commit returns an Internal error with
// sqldb.ErrInDoubt, because the transaction may have committed.
func (r *run) commit(ctx context.Context, fresh []*pending) (err error) {
	whole := false
	panicked := guarded(func() error {
		err = r.opt.LongTurns.Do(ctx, r.who.Account, func() error {
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

// adaptSize adapts the number of items per transaction to the time that a transaction of n items
// took since began: slower than slowGroup halves it, a full one faster than half of slowGroup
// doubles it. Other requests wait for the database's writer meanwhile.
func (b *Batches) adaptSize(n int, began time.Time) {
	most := b.groupSize.Load()
	switch took := time.Since(began); {
	case took > slowGroup:
		b.groupSize.CompareAndSwap(most, max(minGroup, most/2))
	case took < slowGroup/2 && int64(n) >= most:
		b.groupSize.CompareAndSwap(most, min(maxGroup, most*2))
	}
}

// measure sets p.below to the extent of the subtree that a Move item moves, before the transaction.
// If a node is missing it returns nil; the transaction refuses the item.
func (r *run) measure(ctx context.Context, p *pending) error {
	id, parent, name := p.Node, p.Change.Parent, p.Change.Name
	var err error
	if p.Path != nil {
		id, err = r.resolve(ctx, r.opt.DB, p.Path)
	}
	if err == nil && p.TargetPath != nil {
		var above drive.Path
		above, name, _ = p.TargetPath.Split()
		parent, err = r.resolve(ctx, r.opt.DB, above)
	}
	if err == nil {
		p.below, err = r.opt.Files.MoveExtent(ctx, r.opt.DB, r.who, id, parent, name)
	}
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	return err
}

// resolve returns the id of the node at a path of the account.
func (r *run) resolve(ctx context.Context, q sqldb.Querier, path drive.Path) (drive.NodeID, error) {
	n, err := r.opt.Tree.Resolve(ctx, q, r.who.Account, path)
	return n.ID, err
}

// write is the transaction of a group, which may run several times. It sets the result of each
// item, node or failed; a refused item does not fail the others. An error rolls the group back.
func (r *run) write(ctx context.Context, tx *sqldb.Tx, group []*pending) error {
	tx.SetActor(r.who)
	if err := r.series.Lock(ctx, tx); err != nil {
		return err
	}
	if err := r.opt.Ledger.Lock(ctx, tx, r.who.Account); err != nil {
		return err
	}
	defer r.adaptSize(len(group), time.Now())
	for i, p := range group {
		p.node, p.created, p.failed, p.behind = tree.Node{}, false, p.Err, i > 0
	}
	for i := 0; i < len(group); {
		n := countPuts(group[i:])
		if n > 0 {
			if err := r.publish(ctx, tx, group[i:i+n]); err != nil {
				return err
			}
			i += n
			continue
		}
		if p := group[i]; p.failed == nil {
			failed, err := tx.Try(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return r.executeItem(ctx, tx, p) })
			if err != nil {
				return err
			}
			if transient(failed) {
				return failed
			}
			p.failed = failed
		}
		i++
	}
	return r.record(ctx, tx, group)
}

// countPuts returns the number of stored files at the start of group.
func countPuts(group []*pending) (n int) {
	for n < len(group) && group[n].laid != nil {
		n++
	}
	return n
}

// publish publishes the files of consecutive Put items within tx and sets the result of each. Its
// error ends the batch; a refusal of a file is in p.failed.
func (r *run) publish(ctx context.Context, tx *sqldb.Tx, group []*pending) error {
	laid := make([]*upload.UnsyncedFile, len(group))
	for i, p := range group {
		laid[i] = p.laid
	}
	if err := r.opt.Uploads.PublishSynced(ctx, tx, r.who.Account, laid); err != nil {
		return err
	}
	for _, p := range group {
		if p.node, p.created, p.failed = p.laid.Result(); transient(p.failed) {
			return p.failed
		}
	}
	return nil
}

// record stores within tx the results of a group, so that a repeat under the same key returns them.
// Failures that a repeat may overcome are not stored. Without a key it does nothing.
func (r *run) record(ctx context.Context, tx *sqldb.Tx, group []*pending) (err error) {
	if r.series == nil {
		return nil
	}
	var done []idem.ItemResult
	for _, p := range group {
		d := idem.ItemResult{Item: p.N, Mark: p.mark}
		switch {
		case p.failed == nil:
			d.Created, d.Node = p.created, p.node.ID
		case permanent(p.failed):
			if d.Refusal, err = packRefusal(p.failed); err != nil {
				return err
			}
		default:
			continue
		}
		done = append(done, d)
	}
	return r.series.Record(ctx, tx, done)
}

// executeItem executes one item that is not a file within tx and sets p.node and p.created. On an
// error the caller rolls back to before the item.
func (r *run) executeItem(ctx context.Context, tx *sqldb.Tx, p *pending) (err error) {
	switch p.Op {
	case Folder:
		p.created = true
		p.node, err = r.opt.Files.MakeFolder(ctx, tx, r.who, p.Folder)
	case Claim:
		var placed tree.PutResult
		placed, err = upload.LinkOwned(ctx, r.opt.Uploads, tx, r.who, p.File, p.Condition)
		p.node, p.created = placed.Node, placed.Created
	case Move:
		p.node, err = r.move(ctx, tx, p)
	case Trash:
		id := p.Node
		if p.Path != nil {
			id, err = r.resolve(ctx, tx, p.Path)
		}
		if err == nil {
			p.node, err = r.opt.Tree.Trash(ctx, tx, r.who.Account, id, p.Rev)
		}
	case Put:
		err = errors.New("a file without content")
	}
	return err
}

// move executes a Move item within tx and returns the node as changed. Ids that the item gives as
// paths are resolved now. On an error the caller must roll back to before the item.
func (r *run) move(ctx context.Context, tx *sqldb.Tx, p *pending) (n tree.Node, err error) {
	id := p.Node
	e := tree.Edit{Parent: p.Change.Parent, Name: p.Change.Name, MTime: p.Change.MTime, Conflict: p.Change.Conflict, Rev: p.Change.Expect.Rev, Extent: p.below}
	if p.Path != nil {
		id, err = r.resolve(ctx, tx, p.Path)
	}
	if err == nil && p.TargetPath != nil {
		var above drive.Path
		above, e.Name, _ = p.TargetPath.Split()
		e.Parent, err = r.resolve(ctx, tx, above)
	}
	if err == nil && p.behind {
		e.Extent, err = r.opt.Files.MoveExtent(ctx, tx, r.who, id, e.Parent, e.Name)
	}
	if err != nil {
		return tree.Node{}, err
	}
	if n, err = r.opt.Tree.Edit(ctx, tx, r.who.Account, id, e); err == nil {
		err = r.opt.Files.InvalidateRights(ctx, tx, n)
	}
	return n, err
}

// answer sends the results of a committed group to the client. Its error ends the batch; the group
// stays committed.
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

// digestsOf returns the known digests of contents that the group stored. It omits contents that the
// group stored more than once, because the first copy may have had fewer digests.
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

// nodes returns the nodes that the group created or changed, and the current nodes of items that an
// earlier attempt has executed. Items that failed or moved a node to the trash have none.
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
