package client

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"golang.org/x/sync/errgroup"
	"lukechampine.com/blake3"
)

// sendAll sends the missing parts. It returns nil when every part is on the server and the digest
// is known, errUploadDone when a claim (the digest alone, for content that the server has) made the
// rest unnecessary, and else the first error.
//
// Senders read each part while sending it. The scanner reads the file independently, so that it can
// run ahead of a slow network: it computes the digest and compares the parts received by the server
// earlier.
func (m *multipart) sendAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.scan(ctx) })
	for range m.u.opt.Parallel {
		g.Go(func() error { return m.sendParts(ctx) })
	}
	return g.Wait()
}

// sendParts sends parts and marks them done until none is missing, then returns the cause of ctx,
// nil if it is not canceled. It stops at the first failure. Several goroutines may run it.
func (m *multipart) sendParts(ctx context.Context) error {
	for {
		n, drop, ok := m.tracker.acquire(ctx)
		if !ok {
			return context.Cause(ctx)
		}
		if err := m.sendPart(ctx, n, drop); err != nil {
			return err
		}
		m.tracker.markDone(n)
	}
}

// sendPart sends part n and retries. drop says that the server holds other bytes under that number,
// which are deleted first. A part that differs several times in a row fails. If the upload is done
// or gone meanwhile, it returns that outcome as refresh does.
func (m *multipart) sendPart(ctx context.Context, n int64, drop bool) error {
	const tries = 4 // if a part differs more often, another client is sending other content
	offset, length := m.span(n)
	for differs, unfit := 0, 0; ; {
		err := m.replacePart(ctx, n, io.NewSectionReader(m.file, offset, length), drop)
		switch {
		case err == nil:
			m.moved.Add(length)
			return nil
		case IsCode(err, CodePartDiffers, CodeDigestMismatch):
			drop = IsCode(err, CodePartDiffers)
			if differs++; differs == tries {
				return fmt.Errorf("part %d of %s: %w", n, m.src.Name, err)
			}
		case IsCode(err, CodeState, CodeNotFound, CodeGone):
			if err := m.refresh(ctx); err != nil {
				return err
			}
			unfit++ // the upload is changing state, by a claim or another client
			if err := m.u.c.backoff(ctx, m.budget, retryDecision{retry: true}, unfit, err); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// replacePart sends a part, after deleting the server's one if drop is set. A part that the server
// no longer has is no error.
func (m *multipart) replacePart(ctx context.Context, n int64, r *io.SectionReader, drop bool) error {
	if drop {
		if err := m.u.c.deletePart(ctx, m.upload.ID, n, m.budget); err != nil && !IsCode(err, CodeNotFound) {
			return err
		}
	}
	return m.u.c.putPart(ctx, m.upload.ID, n, r, m.meter.add, m.budget)
}

// scan reads the file once, in order. It computes the digest if it is not known, compares the
// unverified parts, and then claims the content if enough is unsent. errUploadDone reports that the
// content is on the server already.
func (m *multipart) scan(ctx context.Context) error {
	sum, buf := blake3.New(32, nil), make([]byte, bufferSize)
	wanted := m.digest == ""
	for n := range int64(len(m.tracker.parts)) {
		unsure := m.tracker.isUnverified(n)
		if !wanted && !unsure {
			continue
		}
		crc, err := m.scanPart(ctx, n, sum, buf)
		if err != nil {
			return err
		}
		if unsure {
			m.comparePart(n, crc)
		}
	}
	if wanted {
		m.digest = hex.EncodeToString(sum.Sum(nil))
	}
	if m.existing != nil && m.existing.Digests[blake3Name] == m.digest {
		return m.useExisting(ctx, *m.existing)
	}
	if m.claimed || m.tracker.unsent()*m.upload.PartSize < m.u.minClaim {
		return nil
	}
	return m.claim(ctx)
}

// scanPart adds part n to sum and returns its CRC-32. It fails with ErrChanged if the file is
// shorter.
func (m *multipart) scanPart(ctx context.Context, n int64, sum hash.Hash, buf []byte) (uint32, error) {
	offset, length := m.span(n)
	crc := crc32.NewIEEE()
	for done := int64(0); done < length; {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		chunk := buf[:min(int64(len(buf)), length-done)]
		switch read, err := m.file.ReadAt(chunk, offset+done); {
		case read == len(chunk): // with io.EOF at the end of the file
		case errors.Is(err, io.EOF):
			return 0, fmt.Errorf("%w: it became shorter", ErrChanged)
		default:
			return 0, err
		}
		_, _ = crc.Write(chunk)
		_, _ = sum.Write(chunk)
		done += int64(len(chunk))
	}
	return crc.Sum32(), nil
}

// comparePart decides whether the server's part n, which was unverified, has the local bytes, by
// its size and their CRC-32. If so, the part is done. Otherwise it must be sent again, and its
// bytes no longer count as progress.
func (m *multipart) comparePart(n int64, crc uint32) {
	_, length := m.span(n)
	have := m.parts[n]
	same := have.Size == length && have.CRC32 == crc
	if !same {
		m.meter.add(-length)
	}
	m.tracker.resolve(n, same)
}

// claim sends the digest during the upload, so that the server can use content that it already has.
// errUploadDone reports that it did. A refused claim is not an error. It sets m.claimSent, and
// m.claimed if the server accepted the digest.
func (m *multipart) claim(ctx context.Context) error {
	m.claimSent.Store(true)
	up, err := m.u.c.amend(ctx, m.upload.ID, UploadChange{Digests: m.digests()}, m.budget)
	if isProblem(err) {
		return nil // a claim is optional; sending the parts shows the upload's state
	}
	if err != nil {
		return err
	}
	m.claimed = true
	return m.handleReply(ctx, up)
}
