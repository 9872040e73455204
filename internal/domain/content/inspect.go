package content

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Inspector verifies stored bytes against the rows of their blobs before they are relied on: when
// an upload would drop its own bytes in favour of existing ones, or link to them.
type Inspector struct {
	Content
	DB    *sqldb.DB
	Store blob.Store
	Log   *slog.Logger // nil: slog.Default
}

const (
	// smallContent is the largest content that Inspect always reads, because it costs one request
	// either way. Contents in packs are not larger.
	smallContent = 64 * drive.KiB
	// staleAfter is the age of the last scrub from which on Inspect also reads larger content:
	// twice the default of --scrub.
	staleAfter = 60 * 24 * time.Hour
	// maxConcurrentInspections is the number of concurrent inspections at a store with high
	// latency.
	maxConcurrentInspections = 16
)

// UnsoundError reports that stored bytes do not match the row of their blob.
type UnsoundError struct {
	Blob    drive.BlobID
	Changed bool   // the bytes differ; false: they are missing or unreadable
	Found   string // description of the stored bytes
}

// Error returns a text for the log.
func (e *UnsoundError) Error() string {
	return fmt.Sprintf("the content of blob %s: %s", e.Blob, e.Found)
}

// Prepare inspects the blobs that contents would be attached to. If the bytes of a blob are
// missing, changed or unreadable, it sets Unsound, and Attach replaces them. Call it outside of
// transactions, because it may read whole contents.
func (i Inspector) Prepare(ctx context.Context, contents ...*NewContent) error {
	all := make([]NewContent, len(contents))
	for k, n := range contents {
		n.Unsound = ""
		all[k] = *n
	}
	there, err := i.bySums(ctx, i.DB, all)
	if err != nil || len(there) == 0 {
		return err
	}
	for id, b := range there {
		if b.Damaged != 0 { // Attach heals damaged blobs anyway
			delete(there, id)
		}
	}
	inspections, ctx := errgroup.WithContext(ctx)
	inspections.SetLimit(1)
	if i.Store.Caps().HighLatency {
		inspections.SetLimit(maxConcurrentInspections)
	}
	for id, b := range there {
		inspections.Go(func() error {
			err := i.Inspect(ctx, b, drive.MaxFileSize)
			if err == nil || ctx.Err() != nil {
				return ctx.Err()
			}
			i.log().ErrorContext(ctx, "stored content is unsound; the same content, just uploaded, takes its place", "blob", b.ID, "error", err)
			for k, n := range contents { // identities do not share contents, so the writes do not race
				if all[k].identity() == id {
					n.Unsound = b.File
				}
			}
			return nil
		})
	}
	return inspections.Wait()
}

// Inspect verifies the bytes of a blob quickly. Content up to smallContent: size and checksum.
// Larger content up to limit bytes whose last scrub is older than staleAfter: size and digest
// (Reread, which records the scrub). All other content: only the size. It fails with *UnsoundError
// if the bytes are missing, unreadable or wrong; other errors are those of the store or database.
func (i Inspector) Inspect(ctx context.Context, b Blob, limit drive.ByteSize) error {
	if b.Size <= smallContent {
		return i.classify(b, i.checkSmall(ctx, b))
	}
	if b.Size <= limit && i.now().Sub(b.Scrubbed) > staleAfter {
		return i.Reread(ctx, b)
	}
	return i.classify(b, i.checkSize(ctx, b))
}

// Reread reads all bytes of a blob and compares size and digest; if they match, it writes the time
// of the scrub. It returns an *UnsoundError if the content is missing, unreadable or different, and
// other errors if that is not certain. It marks nothing as damaged.
func (i Inspector) Reread(ctx context.Context, b Blob) error {
	if err := i.classify(b, i.checkDigest(ctx, b)); err != nil {
		return err
	}
	return i.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE blobs SET scrubbed_at = ? WHERE id = ? AND file = ?`, i.now(), b.ID, b.File)
		return err
	})
}

// Report logs that the bytes of a blob failed a check or a read, and marks the blob as damaged if
// they have changed. It does not mark missing or unreadable bytes, because a file system or disk
// may be temporarily absent; fsck handles those.
func (i Inspector) Report(ctx context.Context, b Blob, cause error) error {
	bad, ok := errors.AsType[*UnsoundError](cause)
	if !ok {
		i.log().WarnContext(ctx, "stored content not checked: the store does not answer", "blob", b.ID, "error", cause)
		return nil
	}
	i.log().ErrorContext(ctx, "stored content is unsound; upload the same file again, or restore it from a backup", "blob", b.ID, "error", cause)
	if !bad.Changed {
		return nil
	}
	return i.MarkDamaged(ctx, b)
}

// MarkDamaged marks a blob as damaged: nothing links to it any more, and the next upload of the
// same content replaces it. The next scrub reads it again and removes the mark if the bytes are
// sound. A blob that is gone or has another file is left alone.
func (i Inspector) MarkDamaged(ctx context.Context, b Blob) error {
	return i.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE blobs SET damaged_at = ?, scrubbed_at = 0 WHERE id = ? AND file = ? AND damaged_at = 0`, i.now(), b.ID, b.File)
		if err != nil {
			return fmt.Errorf("mark blob %s as damaged: %w", b.ID, err)
		}
		return nil
	})
}

// checkSize compares the size of the stored content with that of b, without reading the content. It
// returns an *UnsoundError if they differ, and the error of the store if the content cannot be
// found.
func (i Inspector) checkSize(ctx context.Context, b Blob) error {
	size, err := i.Store.Stat(ctx, b.File)
	if err == nil && size != b.Size {
		err = &UnsoundError{Blob: b.ID, Changed: true, Found: fmt.Sprintf("%d bytes instead of %d", size, b.Size)}
	}
	return err
}

// checkSmall reads content into memory and compares its size and CRC-32 with those of b. It returns
// an *UnsoundError if one differs. Only for content that fits into memory.
func (i Inspector) checkSmall(ctx context.Context, b Blob) error {
	return i.open(ctx, b, func(file blob.Object) error {
		_, err := readChecked(file, b)
		return err
	})
}

// checkDigest reads the content once and compares its size and BLAKE3 digest with those of b. It
// returns an *UnsoundError if one differs, and other errors if the content cannot be read.
func (i Inspector) checkDigest(ctx context.Context, b Blob) error {
	return i.open(ctx, b, func(file blob.Object) error {
		m, err := Measure(ctx, file, b.Size, b.PartSize)
		if err == nil && m.Sum != b.Sum {
			err = &UnsoundError{Blob: b.ID, Changed: true, Found: "blake3 " + m.Sum.String()}
		}
		return err
	})
}

// open opens the content of b and calls check with it if the size matches; else it returns an
// *UnsoundError and does not call check. It closes the content and joins the error of Close to the
// result.
func (i Inspector) open(ctx context.Context, b Blob, check func(blob.Object) error) error {
	file, err := i.Store.Open(ctx, b.File)
	if err != nil {
		return err
	}
	if file.Size() != b.Size {
		err = &UnsoundError{Blob: b.ID, Changed: true, Found: fmt.Sprintf("%d bytes instead of %d", file.Size(), b.Size)}
	} else {
		err = check(file)
	}
	return errors.Join(err, file.Close())
}

// readChecked reads b.Size bytes into memory and returns them if their CRC-32 is that of b, else an
// *UnsoundError. Fewer bytes are an error of package io.
func readChecked(file io.ReaderAt, b Blob) ([]byte, error) {
	bytes := make([]byte, b.Size)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, int64(b.Size)), bytes); err != nil {
		return nil, err
	}
	if sum := crc32.ChecksumIEEE(bytes); sum != b.CRC32 {
		return nil, &UnsoundError{Blob: b.ID, Changed: true, Found: fmt.Sprintf("CRC-32 %08x instead of %08x", sum, b.CRC32)}
	}
	return bytes, nil
}

// classify converts errors of the store that prove the content damaged (missing, unreadable,
// truncated) to an *UnsoundError; others, and nil, stay as they are.
func (i Inspector) classify(b Blob, err error) error {
	switch {
	case drive.IsKind(err, drive.NotFound):
		return &UnsoundError{Blob: b.ID, Found: "no such file"}
	case Unreadable(err):
		return &UnsoundError{Blob: b.ID, Found: "an error of reading"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &UnsoundError{Blob: b.ID, Changed: true, Found: "it ends early"}
	}
	return err
}

// Unreadable reports whether the disk cannot read the bytes, so that a retry does not help, as
// opposed to an unreachable store.
func Unreadable(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EBADMSG)
}

// log returns the logger.
func (i Inspector) log() *slog.Logger {
	if i.Log == nil {
		return slog.Default()
	}
	return i.Log
}
