package s3

import (
	"context"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// ListStaged calls fn for every staged upload. It lists all multipart uploads in the store, then
// journals without one, then uploads that have only pieces of tails. Uploads are shown under the
// date of their id; a key that belongs to no upload is shown without a name.
func (s *Staging) ListStaged(ctx context.Context, fn func(blob.Entry) error) error {
	seen := map[string]bool{} // keys already reported
	var same []pending        // uploads with the same key, which the store lists consecutively
	flush := func() error {
		if len(same) == 0 || seen[same[0].key] {
			return nil
		}
		seen[same[0].key] = true
		stray, err := s.describe(ctx, same)
		if err != nil {
			return err
		}
		return fn(stray)
	}
	err := s.b.eachPending(ctx, s.b.key(blobsDir), func(p pending) error {
		if len(same) > 0 && same[0].key != p.key {
			if err := flush(); err != nil {
				return err
			}
			same = same[:0]
		}
		same = append(same, p)
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = s.listJournals(ctx, seen, fn)
	}
	if err == nil {
		err = s.listTails(ctx, seen, fn)
	}
	if err != nil {
		return fmt.Errorf("list staged uploads: %w", err)
	}
	return nil
}

// listJournals calls fn for each upload that has a journal and whose key is not in seen, and adds
// the key to seen; removed uploads are added but not passed to fn. It stops at the first error.
func (s *Staging) listJournals(ctx context.Context, seen map[string]bool, fn func(blob.Entry) error) error {
	return s.eachJournal(ctx, func(id drive.UploadID) error {
		key := s.b.contentKey(id)
		if seen[key] {
			return nil
		}
		seen[key] = true
		j, found, err := s.j.load(ctx, id)
		if err != nil || !found || j.state == stateRemoved {
			return err
		}
		return fn(blob.Entry{Path: stagedPlace(id), Name: id.String(), Size: j.staged().Held})
	})
}

// describe returns the entry for the multipart uploads of one key. It takes the size from the
// journal if the journal is complete, and else from the store.
func (s *Staging) describe(ctx context.Context, all []pending) (blob.Entry, error) {
	key := all[0].key
	place := strings.TrimPrefix(key, s.b.prefix)
	stray := blob.Entry{Path: strayDir + place}
	known := ""
	if id, ok := uploadOf(place); ok {
		stray.Path, stray.Name = stagedPlace(id), id.String()
		j, found, err := s.j.load(ctx, id)
		if err != nil {
			return blob.Entry{}, err
		}
		if found && j.complete() {
			known, stray.Size = j.mpu, j.staged().Held
		}
	}
	for _, p := range all {
		if p.mpu == known {
			continue
		}
		parts, err := s.b.listParts(ctx, key, p.mpu)
		if err != nil && !drive.IsKind(err, drive.NotFound) {
			return blob.Entry{}, err
		}
		for _, part := range parts {
			stray.Size += drive.ByteSize(part.size)
		}
	}
	return stray, nil
}

// scanCount is the number of keys that Redis examines per SCAN call.
const scanCount = 1000

// eachJournal calls fn, from one goroutine, for the upload of every journal in Redis, on all
// masters of a cluster. A journal may be reported twice, and one created meanwhile not at all. It
// stops at the first error of fn.
func (s *Staging) eachJournal(ctx context.Context, fn func(drive.UploadID) error) error {
	scan := func(ctx context.Context, node redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, s.j.match(), scanCount).Result()
			if err != nil {
				return classifyRedis(err)
			}
			for _, key := range keys {
				id, ok := s.j.idOf(key)
				if !ok {
					continue
				}
				if err := fn(id); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	cluster, ok := s.j.redis.(*redis.ClusterClient)
	if !ok {
		return scan(ctx, s.j.redis)
	}
	var masters []*redis.Client
	// ForEachMaster runs concurrently, but fn must be called by one goroutine at a time.
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		masters = append(masters, node)
		return nil
	})
	if err != nil {
		return classifyRedis(err)
	}
	for _, node := range masters {
		if err := scan(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// QuarantineStaged moves a listed upload to the quarantine. The bytes of a multipart upload cannot
// be read or copied, and aborting destroys them, so the upload is completed and the result moved.
// An upload that cannot be completed stays and is listed again (B3); only a caller that knows it
// has ended may Remove it.
func (s *Staging) QuarantineStaged(ctx context.Context, stray blob.Entry) error {
	place, foreign := strings.CutPrefix(stray.Path, strayDir)
	key := s.b.key(place)
	if !foreign {
		id, err := drive.ParseID[drive.UploadID](stray.Name)
		if err != nil {
			return fmt.Errorf("quarantine %q: no place of a staged upload", stray.Path)
		}
		key = s.b.contentKey(id)
		_, err = s.j.run(ctx, removeScript, id, removedTTL.Milliseconds())
		if err == nil {
			err = s.b.quarantinePieces(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("quarantine %q: %w", stray.Path, err)
		}
	}
	all, err := s.b.pendingOf(ctx, key)
	if err != nil {
		return fmt.Errorf("quarantine %q: %w", stray.Path, err)
	}
	for _, p := range all {
		if err := s.b.quarantinePending(ctx, p, stray.Path); err != nil {
			return fmt.Errorf("quarantine %q: %w", stray.Path, err)
		}
	}
	return nil
}

// quarantinePending completes a multipart upload and moves the resulting object to the quarantine.
// It aborts an upload without bytes. It logs and leaves alone one that cannot be completed or whose
// content exists; that is not an error.
func (b *Bucket) quarantinePending(ctx context.Context, p pending, place string) error {
	parts, err := b.listParts(ctx, p.key, p.mpu)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	list := (&journal{entries: unreadEntries(parts)}).completeParts()
	if len(list) == 0 {
		return b.abort(ctx, p.key, p.mpu) // there are no bytes to lose
	}
	if err := b.checkAbsent(ctx, p.key); err != nil {
		if drive.IsKind(err, drive.Unavailable) {
			return err
		}
		b.log.Warn("multipart upload not moved to the quarantine: its content exists already; abort it by hand", "key", p.key, "upload", p.mpu)
		return nil // completing it would replace content (B1)
	}
	opts := minio.PutObjectOptions{}
	if !b.noIfNoneMatch.Load() {
		opts.SetMatchETagExcept("*")
	}
	_, err = b.api.CompleteMultipartUpload(ctx, b.name, p.key, p.mpu, list, opts)
	if hasCode(err, "EntityTooSmall", "InvalidPart", minio.PreconditionFailed) {
		b.log.Warn("unknown multipart upload not moved to the quarantine: it cannot be completed; abort it by hand if its bytes are not needed", "key", p.key, "upload", p.mpu,
			"error", err)
		return nil
	}
	if err != nil && !hasCode(err, "NoSuchUpload") {
		return classify(err)
	}
	return b.quarantine(ctx, p.key, place)
}

// unreadEntries returns Unread entries for parts.
func unreadEntries(parts map[int]storedPart) map[int]entry {
	all := make(map[int]entry, len(parts))
	for n, p := range parts {
		all[n] = unread(n, p)
	}
	return all
}
