package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Verify implements blob.Staging.
func (s *Staging) Verify(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	u, err := s.use(ref)
	if err != nil {
		return blob.Staged{}, err
	}
	defer s.done(u)
	if err := u.verify(ctx, gen); err != nil {
		return blob.Staged{}, fmt.Errorf("verify: %w", err)
	}
	return u.staged()
}

func (u *upload) verify(ctx context.Context, gen int64) error {
	suspects, doubts, err := u.suspects(gen)
	if err != nil || len(suspects) == 0 {
		return err
	}
	bad, err := u.findBad(ctx, suspects)
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		u.d.log.Warn("parts lost their bytes", "upload", u.ref.ID, "parts", len(bad), "checked", len(suspects))
		if err := u.dropBad(bad, gen); err != nil {
			return err
		}
	}
	// What was read back may still be in the cache alone.
	if err := u.settle(); err != nil {
		return err
	}
	if err := u.note(kindVerified, func() bool { return u.doubts == doubts }); err != nil {
		return err
	}
	return u.syncJournal()
}

// suspects returns the parts to check and how many syncs had failed by then.
func (u *upload) suspects(gen int64) (parts []blob.Part, doubts int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil {
		return nil, 0, err
	}
	if gen < u.journal.fenced {
		return nil, 0, drive.Wrap(fmt.Errorf("gen %d is fenced by %d", gen, u.journal.fenced), drive.WrongState)
	}
	for _, entries := range []map[int]entry{u.journal.parts, u.journal.tails} {
		for _, p := range list(entries) {
			if entries[p.N].suspect {
				parts = append(parts, p)
			}
		}
	}
	return parts, u.doubts, nil
}

// verifyBuffer is what Verify reads at once, in bytes.
const verifyBuffer = 256 << 10

// findBad re-reads parts and returns those whose bytes are not what was accepted.
func (u *upload) findBad(ctx context.Context, parts []blob.Part) (bad []blob.Part, err error) {
	u.mu.Lock()
	path := u.bytesPath()
	u.mu.Unlock()
	f, err := os.Open(path)
	if err != nil {
		return nil, classify(err)
	}
	defer func() { _ = f.Close() }()
	// After a failed sync the cache may hold bytes that the disk does not.
	if err := dropCache(f); err != nil {
		return nil, err
	}
	buf := make([]byte, verifyBuffer)
	for _, p := range parts {
		off := int64(p.N) * int64(u.ref.PartSize)
		cv, crc, err := digest.PartCV(ctx, f, off, int64(p.Size), buf)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EIO):
			bad = append(bad, p) // not there, or not readable: to be sent again either way
		case err != nil:
			return nil, err
		case cv != p.CV || crc != p.CRC32:
			bad = append(bad, p)
		}
	}
	return bad, nil
}

// dropBad takes parts out of the journal, unless they have come again meanwhile. The journal is
// synced before bytes are freed, with the lock held: this is repair, and rare.
func (u *upload) dropBad(bad []blob.Part, gen int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil {
		return err
	}
	var drops []record
	for _, p := range bad {
		if e, ok := u.journal.entry(p.N); ok && e.suspect && e.Part == p {
			drops = append(drops, record{kind: kindDrop, n: p.N, gen: gen})
		}
	}
	if len(drops) == 0 {
		return nil
	}
	if err := u.appendLocked(drops...); err != nil {
		return err
	}
	if err := syncPath(u.path(journalFile)); err != nil {
		return fmt.Errorf("sync journal: %w", classify(err))
	}
	if u.sealed {
		return nil // never a hole in sealed bytes; after Unseal the load frees them
	}
	for _, d := range drops {
		if err := u.free(d.n, 0); err != nil {
			return err
		}
	}
	return nil
}
