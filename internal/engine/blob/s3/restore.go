package s3

import (
	"context"
	"fmt"
	"strconv"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// restore rebuilds the lost journal of an upload from the store; an upload without anything in the
// store is NotFound. All parts are Unread, and the journal refuses every gen until the next Fence,
// because digests and fences are lost.
//
// It looks twice before it returns NotFound: an upload that another instance completes between the
// two listings is in neither.
func (s *Staging) restore(ctx context.Context, ref blob.Ref) error {
	err := s.restoreOnce(ctx, ref)
	if drive.IsKind(err, drive.NotFound) {
		err = s.restoreOnce(ctx, ref)
	}
	return err
}

// restoreOnce makes one attempt to rebuild the lost journal of an upload from the store, and logs a
// warning that the journal was missing. It fails with NotFound if the store has nothing of the
// upload. Parts without bytes are left out.
func (s *Staging) restoreOnce(ctx context.Context, ref blob.Ref) error {
	f, err := s.inspectStore(ctx, ref)
	if err != nil {
		return fmt.Errorf("find the parts again: %w", err)
	}
	args := []any{randomID(), "s", f.state, "m", f.mpu, "e", f.left}
	var last drive.Time
	for n, p := range f.parts {
		if p.size > 0 {
			args = append(args, strconv.Itoa(n), unread(n, p).encode())
			last = max(last, drive.TimeOf(p.time))
		}
	}
	if f.state == stateOpen {
		for n, t := range f.tails {
			if _, whole := f.parts[n]; !whole || f.parts[n].size == 0 {
				args = append(args, "p"+strconv.Itoa(n), t.encode(), "x", "1")
				last = max(last, t.time)
			}
		}
	}
	if last > 0 {
		args = append(args, "t", int64(last))
	}
	a, err := s.j.run(ctx, restoreScript, ref.ID, args...)
	if err != nil {
		return err
	}
	s.b.log.Warn("journal missing in Redis; rebuilt from the bucket listing; the bytes are read before the file becomes visible", "upload", ref.ID, "parts", len(f.parts), "state", f.state)
	return a.asError()
}

// unread returns the entry of a part known only from the bucket listing.
func unread(n int, p storedPart) entry {
	return entry{Part: blob.Part{N: n, Size: drive.ByteSize(p.size), Unread: true}, etag: p.etag, time: drive.TimeOf(p.time)}
}

// storeState is the state of one upload as found in the store: the journal fields s, m and e, and
// the parts and tails.
type storeState struct {
	state, mpu, left string             // fields s, m and e: state, multipart upload id, ETag of the content left by an Unseal
	parts            map[int]storedPart // by number
	tails            map[int]tail       // by number of the part
}

// inspectStore reads the state of an upload from the store. If both content and a multipart upload
// exist, an Unseal has either filled the multipart upload or died on the way; the latter is
// ignored, because Unseal changes the journal only at its end.
func (s *Staging) inspectStore(ctx context.Context, ref blob.Ref) (f storeState, err error) {
	key := s.b.contentKey(ref.ID)
	var info minio.ObjectInfo
	var all []pending
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if info, err = s.b.stat(gctx, key); drive.IsKind(err, drive.NotFound) {
			info.Size, err = -1, nil
		}
		return err
	})
	g.Go(func() (err error) {
		all, err = s.b.pendingOf(gctx, key)
		return err
	})
	var tails map[int]tail
	g.Go(func() (err error) {
		tails, err = s.b.findTails(gctx, ref)
		return err
	})
	if err := g.Wait(); err != nil {
		return storeState{}, err
	}
	best, begun := storeState{}, false
	for _, p := range all {
		parts, err := s.b.listParts(ctx, key, p.mpu)
		if drive.IsKind(err, drive.NotFound) {
			continue
		}
		if err != nil {
			return storeState{}, err
		}
		if !begun || len(parts) > len(best.parts) {
			best, begun = storeState{mpu: p.mpu, parts: parts}, true
		}
	}
	slices := splitParts(info, ref.PartSize)
	switch {
	case info.Size < 0 && !begun:
		return storeState{}, drive.Fail(drive.NotFound)
	case info.Size >= 0 && (len(best.parts) == 0 || len(best.parts) < len(slices)):
		return storeState{state: stateSealed, parts: slices}, nil
	case info.Size >= 0:
		best.left = info.ETag
	}
	best.tails = tails
	return best, nil
}

// splitParts computes the parts, by number from 0, that a stored object consists of: each of
// partSize bytes, the last of the rest. It reads nothing from the store, so the parts have no ETag.
// The map is empty if partSize is not positive or the object is empty or missing (negative size).
func splitParts(info minio.ObjectInfo, partSize drive.ByteSize) map[int]storedPart {
	parts := map[int]storedPart{}
	if partSize <= 0 {
		return parts
	}
	for off := int64(0); off < info.Size; off += int64(partSize) {
		parts[len(parts)] = storedPart{size: min(int64(partSize), info.Size-off), time: info.LastModified}
	}
	return parts
}

// conflictPolicy decides a conflict between journal and store.
type conflictPolicy bool

const (
	// trustStore: Redis may have lost acknowledged writes, so parts in the store are accepted as
	// Unread.
	trustStore conflictPolicy = true
	// dropMismatches: the store has other bytes than were accepted, so those parts are removed from
	// the journal.
	dropMismatches conflictPolicy = false
)

// reconcile writes to the journal in Redis what the store has; p decides which side wins. It does
// not change j, so the caller loads the journal again. If the multipart upload is gone, it marks
// the upload sealed or rebuilds the journal. It fails with NotFound if the store has nothing of the
// upload.
func (s *Staging) reconcile(ctx context.Context, ref blob.Ref, j *journal, p conflictPolicy) error {
	var parts map[int]storedPart
	err := error(drive.Fail(drive.NotFound))
	if j.state != stateSealed {
		parts, err = s.b.listParts(ctx, s.b.contentKey(ref.ID), j.mpu)
	}
	if drive.IsKind(err, drive.NotFound) {
		return s.reconcileWithoutParts(ctx, ref, j)
	}
	if err != nil {
		return err
	}
	triples := partChanges(j, parts, p)
	if p == trustStore {
		tails, err := s.b.findTails(ctx, ref)
		if err != nil {
			return err
		}
		triples = append(triples, tailChanges(j, parts, tails)...)
	}
	return s.applyRepairs(ctx, ref, j, triples)
}

// reconcileWithoutParts repairs the journal of an upload whose multipart upload is gone: it marks
// the journal sealed if the content exists, and else deletes it and rebuilds it from the store. It
// fails with NotFound if the store has nothing of the upload.
func (s *Staging) reconcileWithoutParts(ctx context.Context, ref blob.Ref, j *journal) error {
	info, err := s.b.stat(ctx, s.b.contentKey(ref.ID))
	switch {
	case err == nil && j.isContent(info):
		if j.state != stateSealed {
			if _, err := s.j.run(ctx, moveScript, ref.ID, j.incarnation, j.state, stateSealed); err != nil {
				return err
			}
		}
		return s.applyRepairs(ctx, ref, j, nil)
	case err != nil && !drive.IsKind(err, drive.NotFound):
		return err
	}
	if _, err := s.j.run(ctx, forgetScript, ref.ID, j.incarnation); err != nil {
		return err
	}
	return s.restore(ctx, ref)
}

// applyRepairs runs repairScript with triples of field, old and new value, and logs a warning if
// there are any. It also marks the journal as complete on the current Redis server. It returns nil
// if the journal was replaced meanwhile; the caller loads it again. It fails with NotFound if the
// upload was removed.
func (s *Staging) applyRepairs(ctx context.Context, ref blob.Ref, j *journal, triples []any) error {
	a, err := s.j.run(ctx, repairScript, ref.ID, append([]any{j.incarnation, j.serverNow}, triples...)...)
	if err != nil {
		return err
	}
	if n := len(triples) / 3; n > 0 {
		s.b.log.Warn("journal differed from the bucket; repaired from the bucket listing", "upload", ref.ID, "fields", n)
	}
	if a.verdict() != "ok" && a.text(1) != stateRemoved {
		return nil // rebuilt by another instance; the caller loads it again
	}
	return a.asError()
}

// partChanges returns the repairScript triples (field, old, new) that make the journal's parts
// agree with the store.
func partChanges(j *journal, parts map[int]storedPart, p conflictPolicy) (triples []any) {
	set := func(field, old, now string) {
		if old != now {
			triples = append(triples, field, old, now)
		}
	}
	setUnconfirmed := func(n int, now string) {
		if bytes, ok := j.unconfirmed[n]; ok || now != "" {
			old := ""
			if ok {
				old = strconv.FormatInt(bytes, 10)
			}
			set("o"+strconv.Itoa(n), old, now)
		}
	}
	for n, part := range parts {
		e, known := j.entries[n]
		switch {
		case part.size == 0: // an empty part stands for a dropped one
		case known && e.etag == part.etag:
			setUnconfirmed(n, "")
		case p == trustStore:
			set(strconv.Itoa(n), j.raw[n], string(unread(n, part).encode()))
			setUnconfirmed(n, "")
		default:
			set(strconv.Itoa(n), j.raw[n], "")
			setUnconfirmed(n, strconv.FormatInt(part.size, 10))
		}
	}
	for n, e := range j.entries {
		if parts[n].size == 0 && e.Size > 0 {
			set(strconv.Itoa(n), j.raw[n], "")
		}
	}
	for n := range j.unconfirmed {
		if parts[n].size == 0 {
			setUnconfirmed(n, "")
		}
	}
	return triples
}

// revalidate returns NotFound if the upload is gone. Otherwise it makes the journal agree with the
// store, after a multipart upload named by a lease was missing.
func (s *Staging) revalidate(ctx context.Context, ref blob.Ref) error {
	j, found, err := s.j.load(ctx, ref.ID)
	switch {
	case err != nil:
		return err
	case !found:
		return s.restore(ctx, ref)
	case j.state == stateRemoved:
		return drive.Fail(drive.NotFound)
	default:
		return s.reconcile(ctx, ref, j, trustStore)
	}
}
