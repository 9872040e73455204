package s3

import (
	"context"
	"crypto/md5" //nolint:gosec // S3 makes ETags of it
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Seal turns the parts into content: it completes the multipart upload with exactly the parts of
// the journal, by their ETags.
//
//	dies after ...      and then
//	state sealing       Seal repeats
//	Complete            no such multipart upload, but content of the right size: done
//	state sealed        done
func (s *Staging) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	for range maxTries {
		done, err := s.trySeal(ctx, ref, size)
		if err != nil {
			return fmt.Errorf("seal: %w", err)
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("seal: %w", drive.Wrap(errJournalUnstable, drive.Unavailable))
}

// trySeal is one attempt of Seal; done is false if the journal was lost or changed and the caller
// must retry.
func (s *Staging) trySeal(ctx context.Context, ref blob.Ref, size drive.ByteSize) (done bool, err error) {
	a, err := s.j.run(ctx, sealScript, ref.ID)
	switch {
	case err != nil:
		return false, err
	case a.verdict() == "none":
		return false, s.restore(ctx, ref)
	case a.verdict() == "state": // sealed, or removed after that
		return true, s.checkContent(ctx, ref, size)
	case a.asError() != nil:
		return false, a.asError()
	}
	j, found, err := s.j.load(ctx, ref.ID)
	switch {
	case err != nil || !found:
		return false, err
	case j.state != stateSealing:
		return false, nil
	case !j.complete():
		return false, s.reconcile(ctx, ref, j, trustStore)
	case j.missing(size, ref.PartSize):
		return false, s.refuseSeal(ctx, ref, j, fmt.Errorf("%d parts do not make up %d bytes", len(j.entries), size))
	}
	if err := s.complete(ctx, ref, j, size); err != nil {
		return false, err
	}
	a, err = s.j.run(ctx, moveScript, ref.ID, j.incarnation, stateSealing, stateSealed)
	return err == nil && (a.verdict() == "ok" || a.text(1) == stateSealed), err
}

// refuseSeal reopens an upload that cannot be sealed, and returns PartsMissing with cause.
func (s *Staging) refuseSeal(ctx context.Context, ref blob.Ref, j *journal, cause error) error {
	_, err := s.j.run(ctx, moveScript, ref.ID, j.incarnation, stateSealing, stateOpen)
	return errors.Join(drive.Wrap(cause, drive.PartsMissing), err)
}

// checkContent is Seal for a sealed upload. It fails with NotFound if there is no content, and with
// another error if the content has not the given size.
func (s *Staging) checkContent(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	info, err := s.b.stat(ctx, s.b.contentKey(ref.ID))
	if err == nil && info.Size != int64(size) {
		err = fmt.Errorf("content of upload %s has %d bytes, not %d", ref.ID, info.Size, size)
	}
	return err
}

// complete turns the parts of j into content, or finds that an earlier call did. It fails with
// PartsMissing if parts are missing in the store, after correcting the journal, and refuses an
// object whose size or ETag is not that of the parts. The caller then marks the journal sealed.
func (s *Staging) complete(ctx context.Context, ref blob.Ref, j *journal, size drive.ByteSize) error {
	key := s.b.contentKey(ref.ID)
	if size == 0 { // S3 cannot complete an upload without parts
		return classify(s.b.putObject(ctx, key, newBufferedBody(nil), 0, minio.PutObjectOptions{}))
	}
	_, err := s.b.api.CompleteMultipartUpload(ctx, s.b.name, key, j.mpu, j.completeParts(), minio.PutObjectOptions{})
	switch {
	case hasCode(err, "InvalidPart", "InvalidPartOrder"):
		if err := s.reconcile(ctx, ref, j, dropMismatches); err != nil {
			return err
		}
		return s.refuseSeal(ctx, ref, j, err)
	case err != nil && !hasCode(err, "NoSuchUpload"):
		return classify(err)
	}
	info, serr := s.b.stat(ctx, key)
	switch {
	case drive.IsKind(serr, drive.NotFound) && err != nil: // neither parts nor content exist
		return s.reconcileWithoutParts(ctx, ref, j)
	case serr != nil:
		return serr
	case info.Size != int64(size) || err != nil && !j.isContent(info):
		return fmt.Errorf("content of upload %s has %d bytes and ETag %q: not what its parts make up", ref.ID, info.Size, info.ETag)
	}
	return nil
}

// completeParts returns the non-empty parts, in order, with S3's part numbers, which begin at 1;
// nil if there are none.
func (j *journal) completeParts() []minio.CompletePart {
	var parts []minio.CompletePart
	for _, e := range j.sorted() {
		if e.Size > 0 {
			parts = append(parts, minio.CompletePart{PartNumber: e.N + 1, ETag: e.etag})
		}
	}
	return parts
}

// isContent reports whether an object was completed from the parts of j, as opposed to content that
// an Unseal left in place.
func (j *journal) isContent(info minio.ObjectInfo) bool {
	var sum drive.ByteSize
	for _, e := range j.entries {
		sum += e.Size
	}
	return info.Size == int64(sum) && (j.leftETag == "" || info.ETag != j.leftETag || info.ETag == j.etag())
}

// etag returns the ETag that a store computes for the completed parts if its ETags are MD5s.
func (j *journal) etag() string {
	var all []byte
	n := 0
	for _, e := range j.sorted() {
		if raw, err := hex.DecodeString(e.etag); err == nil && e.Size > 0 {
			all, n = append(all, raw...), n+1
		}
	}
	sum := md5.Sum(all) //nolint:gosec // as above
	return fmt.Sprintf("%x-%d", sum, n)
}

// Unseal makes the parts of a sealed upload writable again: the store copies the parts into a new
// multipart upload. The content stays, because another instance may have confirmed it; a later Seal
// replaces it. The journal says sealed until the end.
func (s *Staging) Unseal(ctx context.Context, ref blob.Ref) error {
	for range maxTries {
		done, err := s.tryUnseal(ctx, ref)
		if err != nil {
			return fmt.Errorf("unseal: %w", err)
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("unseal: %w", drive.Wrap(errJournalUnstable, drive.Unavailable))
}

// tryUnseal makes one attempt to open a sealed or half-sealed upload for writing. It returns true
// if the upload is open; false without an error if the journal changed concurrently or was
// repaired, and the caller must retry.
func (s *Staging) tryUnseal(ctx context.Context, ref blob.Ref) (done bool, err error) {
	j, err := s.load(ctx, ref)
	if err != nil {
		return false, err
	}
	switch j.state {
	case stateOpen:
		return true, nil
	case stateSealed:
		return s.reopen(ctx, ref, j)
	}
	_, err = s.b.listParts(ctx, s.b.contentKey(ref.ID), j.mpu)
	if drive.IsKind(err, drive.NotFound) { // completed, but the state was not written
		return false, s.reconcileWithoutParts(ctx, ref, j)
	}
	if err != nil {
		return false, err
	}
	a, err := s.j.run(ctx, moveScript, ref.ID, j.incarnation, stateSealing, stateOpen)
	return err == nil && a.verdict() == "ok", err
}

// reopen copies the content into the parts of a new multipart upload and then opens the journal
// with it; it does not delete the content. It returns false without an error if the journal changed
// concurrently or the multipart upload was aborted, and the caller must retry.
func (s *Staging) reopen(ctx context.Context, ref blob.Ref, j *journal) (done bool, err error) {
	mpu := j.unsealing
	if mpu == "" {
		if mpu, err = s.beginUnseal(ctx, ref, j); err != nil || mpu == "" {
			return false, err
		}
	}
	info, err := s.b.stat(ctx, s.b.contentKey(ref.ID))
	if err != nil {
		return false, err
	}
	entries, err := s.copyParts(ctx, ref, j, mpu, info)
	if hasCode(err, "NoSuchUpload") { // aborted by another program: begin a new one
		return false, s.applyRepairs(ctx, ref, j, []any{"u", mpu, ""})
	}
	if err != nil {
		return false, err
	}
	args := []any{mpu, info.ETag}
	for _, e := range entries {
		args = append(args, e.N, e.encode())
	}
	a, err := s.j.run(ctx, reopenScript, ref.ID, args...)
	return err == nil && a.verdict() == "ok", err
}

// beginUnseal begins the multipart upload of an Unseal and returns the id recorded in the journal,
// perhaps of a concurrent Unseal; empty if the journal was replaced.
func (s *Staging) beginUnseal(ctx context.Context, ref blob.Ref, j *journal) (mpu string, err error) {
	if mpu, err = s.b.beginMultipart(ctx, ref.ID); err != nil {
		return "", err
	}
	a, err := s.j.run(ctx, unsealScript, ref.ID, j.incarnation, mpu)
	if err == nil && a.text(1) != mpu {
		err = s.b.abort(ctx, s.b.contentKey(ref.ID), mpu)
	}
	if a.verdict() != "ok" {
		return "", err
	}
	return a.text(1), err
}

// maxConcurrentCopies is the number of parts that the store copies concurrently.
const maxConcurrentCopies = 8

// copyParts copies each part's range of the content into mpu inside the store, at most
// maxConcurrentCopies at once, and returns the journal's entries with the new ETags. It fails if
// the content changes meanwhile, and with NoSuchUpload if mpu is gone. Empty parts keep their
// entry.
func (s *Staging) copyParts(ctx context.Context, ref blob.Ref, j *journal, mpu string, info minio.ObjectInfo) ([]entry, error) {
	key, entries := s.b.contentKey(ref.ID), j.sorted()
	same := map[string]string{"x-amz-copy-source-if-match": info.ETag}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxConcurrentCopies)
	for i := range entries {
		e := &entries[i]
		if e.Size == 0 {
			continue
		}
		g.Go(func() error {
			off := int64(e.N) * int64(ref.PartSize)
			p, err := s.b.api.CopyObjectPart(ctx, s.b.name, key, s.b.name, key, mpu, e.N+1, off, int64(e.Size), same)
			e.etag = trimQuotes(p.ETag)
			return classify(err)
		})
	}
	return entries, g.Wait()
}

// OpenStaged opens the content of a sealed upload; before Seal it returns NotFound.
func (s *Staging) OpenStaged(ctx context.Context, ref blob.Ref) (blob.Object, error) {
	j, found, err := s.j.load(ctx, ref.ID)
	if err != nil {
		return nil, fmt.Errorf("open staging: %w", err)
	}
	if found && (j.state == stateOpen || j.state == stateSealing) {
		return nil, drive.Fail(drive.NotFound)
	}
	return s.b.open(ctx, s.b.contentKey(ref.ID))
}
