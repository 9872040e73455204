package upload

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/blob"
)

// readSealed reads sealed content once to compute what the journal does not give: declared digests
// other than BLAKE3, and the sums of parts whose journal was lost. It is for stagings whose parts
// cannot be read earlier; it runs after Seal and before the file is visible (P3). It returns n with
// the results, or DigestMismatch.
func (s *sealer) readSealed(ctx context.Context, row Row, parts []blob.Part, n content.NewContent, run *sealRun) (content.NewContent, error) {
	aliases, lost := row.Digests.Aliases(), slices.ContainsFunc(parts, unread)
	if len(aliases) == 0 && !lost {
		return n, nil
	}
	file, err := s.staging.OpenStaged(ctx, row.Ref())
	if err != nil {
		return n, err
	}
	r := &sealedReader{file: file, row: row, hash: digest.NewRunning(aliases...), read: &run.read, buf: make([]byte, sealedBuffer)}
	parts, err = r.readAll(ctx, parts)
	if err = errors.Join(err, file.Close()); err != nil {
		return n, err
	}
	if lost {
		n = summarize(row, parts)
	}
	n.Aliases = r.hash.Sums()
	computed := digest.Set{digest.Blake3: n.Sum[:]}
	maps.Copy(computed, n.Aliases)
	return n, row.Digests.Check(computed)
}

// unread reports whether the content of a part is unknown because its journal was lost.
func unread(p blob.Part) bool { return p.Unread }

// readable reports whether the parts can be read before the seal and are all known to the journal.
func (s *sealer) readable(parts []blob.Part) bool {
	return readableParts(s.staging) && !slices.ContainsFunc(parts, unread)
}

const sealedBuffer = 1 << 20 // bytes per ranged read: stores deliver this size at full speed

// sealedReader reads sealed content sequentially and hashes it.
type sealedReader struct {
	file blob.Object
	row  Row
	hash *digest.Running
	read *atomic.Int64 // bytes read so far, for progress
	buf  []byte
}

// readAll reads each part of the sealed content and returns a copy of parts with checksums that
// were unknown filled in. It restarts the progress counter at 0 and stops at the first error.
func (r *sealedReader) readAll(ctx context.Context, parts []blob.Part) ([]blob.Part, error) {
	known := slices.Clone(parts)
	r.read.Store(0)
	for i := range known {
		if err := r.readPart(ctx, &known[i]); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// readPart reads one part, adds its bytes to the hash and the progress, and sets its sums in p if
// they were unknown. It fails if the bytes do not have the known sums, and with Unavailable if ctx
// ends.
func (r *sealedReader) readPart(ctx context.Context, p *blob.Part) error {
	from := drive.ByteSize(p.N) * r.row.PartSize
	body := blob.NewBody(io.NewSectionReader(r.file, int64(from), int64(p.Size)), blob.BodyOptions{
		N: p.N, Offset: from, Size: p.Size, Session: p.Session,
	})
	for off := from; ; {
		if err := ctx.Err(); err != nil {
			return drive.Wrap(err, drive.Unavailable)
		}
		n, err := body.Read(r.buf)
		if _, hashErr := r.hash.WriteAt(r.buf[:n], int64(off)); hashErr != nil {
			return hashErr
		}
		off += drive.ByteSize(n)
		r.read.Add(int64(n))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	got, err := body.Finish()
	if err == nil && p.Unread {
		*p = got
	}
	return err
}

// withoutAlgos returns set without the given algorithms.
func withoutAlgos(set digest.Set, algos []digest.Algo) digest.Set {
	rest := maps.Clone(set)
	for _, a := range algos {
		delete(rest, a)
	}
	return rest
}

// keepSealTimer postpones, in a goroutine, the timer that would restart the seal, so that no other
// instance reads the same bytes again. The caller must call end, which waits for the goroutine.
// Without a shared staging it does nothing.
func (s *sealer) keepSealTimer(ctx context.Context, row Row) (end func()) {
	if !s.shared {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(sealRetry / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.sched.touch(row.ID)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// Poll intervals for a seal that another instance runs; they double from the first to the last.
const (
	firstWatch = 20 * time.Millisecond
	lastWatch  = time.Second
)

// watchSeal polls the row of an upload that another instance seals, until the upload is done, ended
// or open again. On timeout it returns row, still sealing. It returns retry if the upload is open
// again because that seal failed: a seal begun here returns the reason.
func (s *sealer) watchSeal(ctx context.Context, row Row, timeout <-chan time.Time) (Row, outcome, error) {
	for pause := firstWatch; ; pause = min(2*pause, lastWatch) {
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-timeout:
			wait.Stop()
			return row, finished, nil
		case <-ctx.Done():
			wait.Stop()
			return row, finished, drive.Wrap(ctx.Err(), drive.InProgress, "retry_after", 1)
		}
		now, err := findRow(ctx, s.db, row.ID)
		switch {
		case err != nil:
			return row, finished, err
		case now.State == Done:
			return now, finished, nil
		case now.State == Reclaiming || now.State == Gone:
			return now, finished, now.ended()
		case now.State != Sealing:
			return now, retry, nil
		}
	}
}
