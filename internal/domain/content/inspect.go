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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// Inspector compares stored bytes with the rows of their blobs, before somebody relies on them: an
// upload that would drop its own bytes for those that are there, or a link to them.
type Inspector struct {
	Content
	DB    *sqldb.DB
	Store blob.Store
	Log   *slog.Logger // nil: slog.Default
}

const (
	// smallContent is the largest content that Inspect always reads: it is one request of the store
	// either way. Contents in packs are not larger.
	smallContent = 64 * drive.KiB
	// staleAfter is the age of a scrub from which Inspect reads larger content, too: twice the
	// default of --scrub.
	staleAfter = 60 * 24 * time.Hour
	// farLooks is how many contents of a far store Prepare inspects at a time.
	farLooks = 16
)

// BadError reports that stored bytes are not what the row of their blob says.
type BadError struct {
	Blob    drive.BlobID
	Changed bool   // they were read and are others; else they are missing, or the disk cannot read them
	Found   string // in words
}

func (e *BadError) Error() string { return fmt.Sprintf("the content of blob %s: %s", e.Blob, e.Found) }

// Prepare looks at the blobs that contents would be attached to. Where the bytes of one are
// missing, changed or cannot be read, it says so in Unsound, and Attach has the new bytes take
// their place. It must not be called within a transaction: it may read all of a content whose last
// scrub is old.
func (i Inspector) Prepare(ctx context.Context, contents ...*New) error {
	all := make([]New, len(contents))
	for k, n := range contents {
		n.Unsound = ""
		all[k] = *n
	}
	there, err := i.bySums(ctx, i.DB, all)
	if err != nil || len(there) == 0 {
		return err
	}
	for id, b := range there {
		if b.Damaged != 0 { // Attach heals it
			delete(there, id)
		}
	}
	looks, ctx := errgroup.WithContext(ctx)
	looks.SetLimit(1)
	if i.Store.Caps().Far {
		looks.SetLimit(farLooks)
	}
	for id, b := range there {
		looks.Go(func() error {
			err := i.Inspect(ctx, b, drive.MaxFileSize)
			if err == nil || ctx.Err() != nil {
				return ctx.Err()
			}
			i.log().ErrorContext(ctx, "stored content is unsound; the same content, just uploaded, takes its place", "blob", b.ID, "error", err)
			for k, n := range contents { // each identity has its own contents
				if all[k].identity() == id {
					n.Unsound = b.File
				}
			}
			return nil
		})
	}
	return looks.Wait()
}

// Inspect returns nil if the bytes of a blob are sound as far as a quick look tells: their
// existence and size, the checksum of small content, and the digest of larger content whose last
// scrub is old, unless it is larger than limit. A BadError says that they are not; any other error
// that the store cannot tell.
func (i Inspector) Inspect(ctx context.Context, b Blob, limit drive.ByteSize) error {
	if b.Size <= smallContent {
		return i.judge(b, i.checkSmall(ctx, b))
	}
	if b.Size <= limit && i.now().Sub(b.Scrubbed) > staleAfter {
		return i.Reread(ctx, b)
	}
	return i.judge(b, i.checkSize(ctx, b))
}

// Reread is Inspect that reads all bytes, and notes that they were read.
func (i Inspector) Reread(ctx context.Context, b Blob) error {
	if err := i.judge(b, i.checkDigest(ctx, b)); err != nil {
		return err
	}
	return i.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE blobs SET scrubbed_at = ? WHERE id = ? AND file = ?`, i.now(), b.ID, b.File)
		return err
	})
}

// Report logs that the bytes of a blob did not pass Inspect or a read, and marks the blob as
// damaged if they have changed. Bytes that are missing or cannot be read it does not mark: their
// file system may not be mounted, their disk may be away. That is for fsck, which looks at the
// place as a whole.
func (i Inspector) Report(ctx context.Context, b Blob, cause error) error {
	bad, ok := errors.AsType[*BadError](cause)
	if !ok {
		i.log().WarnContext(ctx, "stored content cannot be looked at: its store does not answer", "blob", b.ID, "error", cause)
		return nil
	}
	i.log().ErrorContext(ctx, "stored content is unsound; upload the same file again, or restore it from a backup", "blob", b.ID, "error", cause)
	if !bad.Changed {
		return nil
	}
	return i.Mark(ctx, b)
}

// Mark marks a blob as damaged, so that nothing links to it and the next upload of the same content
// replaces it. A blob that has gone or lies in another file since then is left alone.
func (i Inspector) Mark(ctx context.Context, b Blob) error {
	return i.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE blobs SET damaged_at = ? WHERE id = ? AND file = ? AND damaged_at = 0`, i.now(), b.ID, b.File)
		if err != nil {
			return fmt.Errorf("mark blob %s as damaged: %w", b.ID, err)
		}
		return nil
	})
}

func (i Inspector) checkSize(ctx context.Context, b Blob) error {
	size, err := i.Store.Stat(ctx, b.File)
	if err == nil && size != b.Size {
		err = &BadError{Blob: b.ID, Changed: true, Found: fmt.Sprintf("%d bytes instead of %d", size, b.Size)}
	}
	return err
}

func (i Inspector) checkSmall(ctx context.Context, b Blob) error {
	return i.open(ctx, b, func(file blob.Object) error {
		_, err := readChecked(file, b)
		return err
	})
}

func (i Inspector) checkDigest(ctx context.Context, b Blob) error {
	return i.open(ctx, b, func(file blob.Object) error {
		m, err := Measure(ctx, file, b.Size, b.PartSize)
		if err == nil && m.Sum != b.Sum {
			err = &BadError{Blob: b.ID, Changed: true, Found: "blake3 " + m.Sum.String()}
		}
		return err
	})
}

// open opens content and compares its size before it calls check.
func (i Inspector) open(ctx context.Context, b Blob, check func(blob.Object) error) error {
	file, err := i.Store.Open(ctx, b.File)
	if err != nil {
		return err
	}
	if file.Size() != b.Size {
		err = &BadError{Blob: b.ID, Changed: true, Found: fmt.Sprintf("%d bytes instead of %d", file.Size(), b.Size)}
	} else {
		err = check(file)
	}
	return errors.Join(err, file.Close())
}

// readChecked reads all of a small content and compares its checksum.
func readChecked(file io.ReaderAt, b Blob) ([]byte, error) {
	bytes := make([]byte, b.Size)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, int64(b.Size)), bytes); err != nil {
		return nil, err
	}
	if sum := crc32.ChecksumIEEE(bytes); sum != b.CRC32 {
		return nil, &BadError{Blob: b.ID, Changed: true, Found: fmt.Sprintf("CRC-32 %08x instead of %08x", sum, b.CRC32)}
	}
	return bytes, nil
}

// judge makes a BadError of what the store says for good.
func (i Inspector) judge(b Blob, err error) error {
	switch {
	case drive.IsKind(err, drive.NotFound):
		return &BadError{Blob: b.ID, Found: "no such file"}
	case Unreadable(err):
		return &BadError{Blob: b.ID, Found: "an error of reading"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &BadError{Blob: b.ID, Changed: true, Found: "it ends early"}
	}
	return err
}

// Unreadable reports whether err says that the disk cannot read the bytes, as opposed to a store
// that does not answer: reading again does not help.
func Unreadable(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EBADMSG)
}

func (i Inspector) log() *slog.Logger {
	if i.Log == nil {
		return slog.Default()
	}
	return i.Log
}
