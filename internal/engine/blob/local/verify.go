package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Verify reads suspect parts back, drops those with missing or wrong bytes, makes the others
// durable, and returns the remaining state; the client must send the dropped ones again
// (blob.Staging). Without suspect parts it reads nothing.
func (s *Staging) Verify(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	u, err := s.acquire(ref)
	if err != nil {
		return blob.Staged{}, err
	}
	defer s.release(u)
	if err := u.verify(ctx, gen); err != nil {
		return blob.Staged{}, fmt.Errorf("verify: %w", err)
	}
	return u.staged()
}

// verify drops suspect parts with missing or wrong bytes, logs their number, syncs the others and
// clears their suspicion, unless another sync has failed meanwhile.
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
		u.d.log.Warn("parts with missing or wrong bytes dropped; the client must send them again", "upload", u.ref.ID, "parts", len(bad), "checked", len(suspects))
		if err := u.dropBad(bad, gen); err != nil {
			return err
		}
	}
	// Bytes that were read back may exist in the cache only.
	if err := u.syncAll(); err != nil {
		return err
	}
	if err := u.appendIf(kindVerified, func() bool { return u.failedSyncs == doubts }); err != nil {
		return err
	}
	return u.syncJournal()
}

// suspects returns the suspect parts and tails, and the number of failed syncs so far. It returns
// WrongState if gen is fenced by a greater one.
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
		for _, p := range sortedParts(entries) {
			if entries[p.N].suspect {
				parts = append(parts, p)
			}
		}
	}
	return parts, u.failedSyncs, nil
}

// verifyBuffer is the read size of Verify, in bytes.
const verifyBuffer = 256 << 10

// findBad reads parts back from the disk, not the cache, and returns those whose bytes are missing,
// unreadable or different from their digest. It changes nothing; the caller drops them. It fails if
// the file cannot be opened or ctx ends.
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
		cv, crc, err := digest.HashPart(ctx, f, off, int64(p.Size), buf)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EIO): // missing or unreadable: the client must send it again
			bad = append(bad, p) // not there, or not readable: to be sent again either way
		case err != nil:
			return nil, err
		case cv != p.CV || crc != p.CRC32:
			bad = append(bad, p)
		}
	}
	return bad, nil
}

// dropBad removes the suspect parts bad from the journal, unless they were replaced or verified
// meanwhile, and frees their bytes. It syncs the journal before it frees bytes, with u.mu locked,
// because this repair is rare. For a sealed upload it leaves the bytes; the load after an Unseal
// frees them.
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
		return nil // never punch a hole in sealed bytes; the load after an Unseal frees them
	}
	for _, d := range drops {
		if err := u.free(d.n, 0); err != nil {
			return err
		}
	}
	return nil
}
