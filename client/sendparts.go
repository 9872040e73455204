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

// sendAll returns when every part is there and the digest is known, or when a claim has made the
// rest unnecessary.
//
// The senders read a part once, while it goes out. The scanner reads the file apart from them,
// ahead where the network is the slower one: it computes the digest and compares what the server
// has from before.
func (f *flight) sendAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.scan(ctx) })
	for range f.u.opt.Parallel {
		g.Go(func() error { return f.send(ctx) })
	}
	return g.Wait()
}

// send sends parts until none is missing.
func (f *flight) send(ctx context.Context) error {
	for {
		n, drop, ok := f.board.take(ctx)
		if !ok {
			return context.Cause(ctx)
		}
		if err := f.sendPart(ctx, n, drop); err != nil {
			return err
		}
		f.board.sent(n)
	}
}

// sendPart brings part n to the server, whatever is there under its number.
func (f *flight) sendPart(ctx context.Context, n int64, drop bool) error {
	const tries = 4 // more often than this a part does not differ by accident: somebody else sends it
	offset, length := f.span(n)
	for differs, unfit := 0, 0; ; {
		err := f.replacePart(ctx, n, io.NewSectionReader(f.file, offset, length), drop)
		switch {
		case err == nil:
			f.moved.Add(length)
			return nil
		case IsCode(err, CodePartDiffers, CodeDigestMismatch):
			drop = IsCode(err, CodePartDiffers)
			if differs++; differs == tries {
				return fmt.Errorf("part %d of %s: %w", n, f.src.Name, err)
			}
		case IsCode(err, CodeState, CodeNotFound, CodeGone):
			if err := f.follow(ctx); err != nil {
				return err
			}
			unfit++ // it is about to move on, by a claim or by another client
			if err := f.u.c.pause(ctx, f.patience, verdict{again: true}, unfit, err); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// replacePart sends a part, after dropping what the server has under its number if that is known to
// differ.
func (f *flight) replacePart(ctx context.Context, n int64, r *io.SectionReader, drop bool) error {
	if drop {
		if err := f.u.c.deletePart(ctx, f.up.ID, n, f.patience); err != nil && !IsCode(err, CodeNotFound) {
			return err
		}
	}
	return f.u.c.putPart(ctx, f.up.ID, n, r, f.meter.add, f.patience)
}

// scan reads the file once, in order, as far as something is still to be known about it.
func (f *flight) scan(ctx context.Context) error {
	sum, buf := blake3.New(32, nil), make([]byte, bufferSize)
	wanted := f.digest == ""
	for n := range int64(len(f.board.parts)) {
		unsure := f.board.unsure(n)
		if !wanted && !unsure {
			continue
		}
		crc, err := f.scanPart(ctx, n, sum, buf)
		if err != nil {
			return err
		}
		if unsure {
			f.compare(n, crc)
		}
	}
	if wanted {
		f.digest = hex.EncodeToString(sum.Sum(nil))
	}
	if f.there != nil && f.there.Digests[blake3Name] == f.digest {
		return f.drop(ctx, *f.there)
	}
	if f.claimed || f.board.left()*f.up.PartSize < f.u.claimWorth {
		return nil
	}
	return f.claim(ctx)
}

// scanPart feeds part n to sum and returns its CRC-32.
func (f *flight) scanPart(ctx context.Context, n int64, sum hash.Hash, buf []byte) (uint32, error) {
	offset, length := f.span(n)
	crc := crc32.NewIEEE()
	for done := int64(0); done < length; {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		chunk := buf[:min(int64(len(buf)), length-done)]
		switch read, err := f.file.ReadAt(chunk, offset+done); {
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

// compare settles an unsure part.
func (f *flight) compare(n int64, crc uint32) {
	_, length := f.span(n)
	have := f.parts[n]
	same := have.Size == length && have.CRC32.Sum == crc
	if !same {
		f.meter.add(-length)
	}
	f.board.settle(n, same)
}

// claim tells the server, in the middle of the upload, what the content is. errLinked says that it
// had it.
func (f *flight) claim(ctx context.Context) error {
	f.offered.Store(true)
	up, err := f.u.c.amend(ctx, f.up.ID, Amend{Digests: f.digests()}, f.patience)
	if isProblem(err) {
		return nil // an offer: the parts go on, and find out by themselves what has become of the upload
	}
	if err != nil {
		return err
	}
	f.claimed = true
	return f.take(ctx, up)
}
