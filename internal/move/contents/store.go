package contents

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Store is the blob.Store of a pair.
type Store struct{ p *Pair }

var _ blob.Store = (*Store)(nil)

// Caps returns the capabilities of both sides together: SmallMax is that of the leader. With two
// sides, links are disabled: presigning a link does not check where the content is.
func (s *Store) Caps() (caps blob.StoreCaps) {
	order := s.p.current.Load().order()
	caps.SmallMax = order[0].Store.Caps().SmallMax // of the side that receives contents
	for _, at := range order {
		one := at.Store.Caps()
		caps.ReportsFree = caps.ReportsFree || one.ReportsFree
		caps.Presigns = one.Presigns && len(order) == 1
		caps.HighLatency = caps.HighLatency || one.HighLatency
		caps.DefersReclaim = caps.DefersReclaim || one.DefersReclaim
	}
	return caps
}

// Free returns the smallest free space of the sides that report one; errUnbounded if none does. It
// returns the error of a side that fails to answer.
func (s *Store) Free(ctx context.Context) (least drive.ByteSize, err error) {
	least, err = 0, errUnbounded
	for _, at := range s.p.current.Load().order() {
		if !at.Store.Caps().ReportsFree {
			continue
		}
		free, failed := at.Store.Free(ctx)
		if failed != nil {
			return 0, failed
		}
		if err != nil || free < least {
			least, err = free, nil
		}
	}
	return least, err
}

// errUnbounded is returned by Free if no side is bounded.
var errUnbounded = errors.New("no side tells how much room it has")

// Presign returns a link to the content at the leader. With two sides Caps disables links.
func (s *Store) Presign(ctx context.Context, name string, l blob.Link) (string, error) {
	return s.p.current.Load().leader().Store.Presign(ctx, name, l)
}

// Put stores content at the leader, durably. It is copied to the follower later, by the Copier.
func (s *Store) Put(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	return s.p.current.Load().leader().Store.Put(ctx, name, body)
}

// ReserveName returns the leader's name for new content. The leader may change before the content
// is stored.
func (s *Store) ReserveName(own string, size drive.ByteSize) string {
	return s.p.current.Load().leader().Store.ReserveName(own, size)
}

// PutUnsynced stores content at the leader; it may be lost until Sync.
func (s *Store) PutUnsynced(ctx context.Context, name string, body blob.Body, many bool) (blob.Part, error) {
	return s.p.current.Load().leader().Store.PutUnsynced(ctx, name, body, many)
}

// Sync makes contents durable at the leader, and those that it lacks at the follower, because the
// leader may have changed since PutUnsynced. It returns NotFound if neither side has one of them,
// after syncing the others.
func (s *Store) Sync(ctx context.Context, names []string) error {
	order := s.p.current.Load().order()
	if len(order) == 1 {
		return order[0].Store.Sync(ctx, names)
	}
	for _, at := range order {
		var here, missing []string
		for _, name := range names {
			switch _, err := at.Store.Stat(ctx, name); {
			case err == nil:
				here = append(here, name)
			case drive.IsKind(err, drive.NotFound):
				missing = append(missing, name)
			default:
				return err
			}
		}
		if err := at.Store.Sync(ctx, here); err != nil {
			return err
		}
		if names = missing; len(names) == 0 {
			return nil
		}
	}
	return drive.Fail(drive.NotFound)
}

// PutAtomic stores content at the leader, all or nothing.
func (s *Store) PutAtomic(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	return s.p.current.Load().leader().Store.PutAtomic(ctx, name, body)
}

// Open opens content, which the caller must close, at the first side that has it. If one side
// fails, it tries the other. NotFound means that both lack it.
func (s *Store) Open(ctx context.Context, name string) (blob.Object, error) {
	return firstAnswer(s.p.current.Load().readers(name), func(at *Side) (blob.Object, error) { return at.Store.Open(ctx, name) })
}

// Stat returns the size of content at the first side that has it. If one side fails, it tries the
// other. NotFound means that both lack it.
func (s *Store) Stat(ctx context.Context, name string) (drive.ByteSize, error) {
	return firstAnswer(s.p.current.Load().readers(name), func(at *Side) (drive.ByteSize, error) { return at.Store.Stat(ctx, name) })
}

// firstAnswer returns the first successful answer. If both sides fail, an error other than NotFound
// wins, so NotFound means that both sides lack the content.
func firstAnswer[T any](sides []*Side, ask func(*Side) (T, error)) (v T, err error) {
	var refusal error
	for _, at := range sides {
		if v, err = ask(at); err == nil {
			return v, nil
		}
		if refusal == nil || drive.IsKind(refusal, drive.NotFound) {
			refusal = err
		}
	}
	return v, refusal
}

// readers returns the sides to read a content from, in order: the leader first, or the follower for
// the share of names that SetReadPercent selects.
func (s *pairState) readers(name string) []*Side {
	order := s.order()
	if len(order) == 2 && s.percent > 0 && percentile(name) < s.percent {
		order[0], order[1] = order[1], order[0]
	}
	return order
}

// percentile maps a name to a stable number from 0 to 99.
func percentile(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int(h.Sum32() % 100)
}

// Remove deletes content at both sides, the follower last. If either side fails, it returns an
// error, and the caller must retry.
func (s *Store) Remove(ctx context.Context, name string) error {
	var errs []error
	for _, at := range s.p.current.Load().order() {
		errs = append(errs, at.Store.Remove(ctx, name))
	}
	return errors.Join(errs...)
}

// RemoveAll deletes contents at both sides and returns the names that are gone from both. Contents
// that the leader could not delete also stay at the follower.
func (s *Store) RemoveAll(ctx context.Context, names []string) (gone []string, err error) {
	return s.removeAll(names, func(at blob.Store, names []string) ([]string, error) { return at.RemoveAll(ctx, names) })
}

// Reclaim deletes contents at both sides and returns the names that are gone from both. Contents
// whose removal would write more than it frees may stay, without an error. Contents that the leader
// keeps also stay at the follower.
func (s *Store) Reclaim(ctx context.Context, names []string) (gone []string, err error) {
	return s.removeAll(names, func(at blob.Store, names []string) ([]string, error) { return at.Reclaim(ctx, names) })
}

// removeAll removes names at the leader, then those that are gone there at the follower. gone are
// the names removed at both.
func (s *Store) removeAll(names []string, remove func(blob.Store, []string) ([]string, error)) (gone []string, err error) {
	gone = names
	var errs []error
	for _, at := range s.p.current.Load().order() {
		if gone, err = remove(at.Store, gone); err != nil {
			errs = append(errs, fmt.Errorf("at %s: %w", at.Name, err))
		}
	}
	return gone, errors.Join(errs...)
}

// List calls fn for each content of the leader and then of the follower: twice for content on both.
// It stops at the first error.
func (s *Store) List(ctx context.Context, fn func(blob.Entry) error) error {
	for _, at := range s.p.current.Load().order() {
		if err := at.Store.List(ctx, fn); err != nil {
			return err
		}
	}
	return nil
}

// ListPage returns a page of a shard, ordered by path, after the path after, and whether more
// follow. Contents on both sides are listed twice, so a page may have twice the limit.
func (s *Store) ListPage(ctx context.Context, shard, after string, limit int) (page []blob.Entry, more bool, err error) {
	end := "" // listings beyond it are incomplete
	for _, at := range s.p.current.Load().order() {
		some, cut, err := at.Store.ListPage(ctx, shard, after, limit)
		if err != nil {
			return nil, false, err
		}
		if last := len(some) - 1; cut && last >= 0 && (end == "" || some[last].Path < end) {
			end = some[last].Path
		}
		page, more = append(page, some...), more || cut
	}
	blob.SortEntries(page)
	if end != "" {
		page = slices.DeleteFunc(page, func(s blob.Entry) bool { return s.Path > end })
	}
	return page, more, nil
}

// ListUnsharded calls fn for each content outside of the shards, at the leader and then at the
// follower. It stops at the first error.
func (s *Store) ListUnsharded(ctx context.Context, fn func(blob.Entry) error) error {
	for _, at := range s.p.current.Load().order() {
		if err := at.Store.ListUnsharded(ctx, fn); err != nil {
			return err
		}
	}
	return nil
}

// Quarantine moves a stray into the quarantine at both sides, and returns their errors joined.
func (s *Store) Quarantine(ctx context.Context, stray blob.Entry) error {
	var errs []error
	for _, at := range s.p.current.Load().order() {
		errs = append(errs, at.Store.Quarantine(ctx, stray))
	}
	return errors.Join(errs...)
}

// Quarantine is the quarantine of both sides.
type Quarantine struct{ p *Pair }

var _ blob.Quarantine = (*Quarantine)(nil)

// followerMark prefixes the names of items in the follower's quarantine.
const followerMark = "follower:"

// List calls fn for each item in quarantine at the leader and then at the follower, whose names get
// the prefix followerMark. It stops at the first error.
func (q *Quarantine) List(ctx context.Context, fn func(blob.Quarantined) error) error {
	s := q.p.current.Load()
	if err := s.leader().Quarantine.List(ctx, fn); err != nil || s.follower() == nil {
		return err
	}
	err := s.follower().Quarantine.List(ctx, func(item blob.Quarantined) error {
		item.Name = followerMark + item.Name
		return fn(item)
	})
	if err != nil {
		return fmt.Errorf("list the quarantine of %s: %w", s.follower().Name, err)
	}
	return nil
}

// Purge deletes an item, by the name that List gave it, at the side that has it.
func (q *Quarantine) Purge(ctx context.Context, item blob.Quarantined) error {
	s := q.p.current.Load()
	at := s.leader()
	if name, there := strings.CutPrefix(item.Name, followerMark); there && s.follower() != nil {
		at, item.Name = s.follower(), name
	}
	return at.Quarantine.Purge(ctx, item)
}
