package blob

import (
	"context"
	"fmt"
	"io"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
)

// Staging holds the parts of uploads until Seal turns them into content of the adjacent Store
// without copying. Only Create makes a staged upload; every other method returns NotFound for a
// missing one. A sealed upload exists until Remove: Load, Fence and Verify answer from the journal,
// and Write, Extend and Drop return WrongState.
//
// The journal is the durable list of accepted parts and tails. Fencing: Write, Extend and Drop
// return WrongState unless their gen is greater than the last fenced gen.
//
// A part arrives either whole (Write) or in successive pieces (Extend). The bytes of a part that is
// not complete are its tail. A tail is journaled, counted, fenced, verified, dropped and removed
// like a part, but it is not in Staged.Parts.
type Staging interface {
	// Caps describes the abilities of this staging. MinPart may change while an installation moves
	// to another store.
	Caps() Caps

	// Create durably makes an empty staged upload. An existing one is not an error.
	Create(ctx context.Context, ref Ref) error
	// Write stores part w.N from body at its final place. When Write returns nil, the part is in
	// the journal and survives kill -9 (P2). On any error, a cancelled ctx included, nothing of
	// this attempt remains and the part counts as missing, unless Write was refused before it
	// began: NotFound, WrongState, InProgress, PartRange, PartSize of w, or PartExistsError. The
	// caller must run at most one Write per part at a time; a second one returns InProgress and
	// changes nothing. Cancelling ctx does not interrupt a Read of body, so the caller must make
	// the body's reader fail. If all bytes have arrived, they are accepted even if ctx ends then.
	//
	// Write returns PartExistsError before it reads the body if the journal already has the part;
	// to send different bytes, the caller drops the part first. A part with unconfirmed bytes
	// (Part.Unread, Staged.Suspect) is replaced as if it were missing.
	Write(ctx context.Context, ref Ref, w Write, body Body) (Part, error)
	// Extend appends body to the tail of part e.N, which must be e.At bytes long; 0: there must be
	// no tail. When Extend returns nil, the longer tail is in the journal and survives kill -9. A
	// tail that reaches e.Whole bytes becomes a part. An empty body turns a tail of e.Whole bytes
	// into a part, and otherwise changes nothing. On any error the tail is unchanged.
	//
	// Extend returns OffsetMismatch, before it reads body, if the tail has another length or the
	// part exists. It is refused for the same reasons as Write. A concurrent Write of the part
	// returns InProgress; a later Write replaces the tail. The bytes written do not depend on the
	// length of the tail, except in a store that cannot append: it merges pieces now and then,
	// copying each byte O(log) times.
	Extend(ctx context.Context, ref Ref, e Extend, body Body) (Part, error)
	// PrepareExtend stores bytes of a part like Extend, without the journal entry. The new bytes
	// are invisible until PendingExtend.Commit, and lost if the process dies before. The caller
	// must call Commit or Discard on the result; until then the part counts as being written.
	PrepareExtend(ctx context.Context, ref Ref, e Extend, body Body) (PendingExtend, error)
	// OpenTail returns a reader of the tail of part n, from its first byte. It returns NotFound if
	// there is no tail. The caller closes the reader.
	OpenTail(ctx context.Context, ref Ref, n int) (io.ReadCloser, error)
	// Drop removes part n or its tail from the journal and frees its bytes. A missing part is not
	// an error. A part being written is InProgress.
	Drop(ctx context.Context, ref Ref, gen int64, n int) error
	// Load returns the accepted parts and tails, after freeing bytes of writes torn by a crash. It
	// does not verify suspect parts; see Staged.Suspect.
	Load(ctx context.Context, ref Ref) (Staged, error)
	// Fence refuses all further Writes with this gen or a smaller one, waits for running Writes,
	// makes all accepted bytes durable against power loss, and returns them. It does not cancel
	// running Writes; a caller in a hurry does. Fence may be repeated. After an error, an expired
	// ctx included, the gen stays refused and the caller must repeat Fence.
	Fence(ctx context.Context, ref Ref, gen int64) (Staged, error)
	// Remove deletes a staged upload with all its bytes, but never sealed content. A missing upload
	// is not an error. Remove works on a full disk and needs no Fence: a running Write then fails
	// with NotFound.
	Remove(ctx context.Context, ref Ref) error

	// Seal durably turns the staged bytes into the content named after the upload, cut to size.
	// Seal may be repeated after a crash at any point; bytes already in place are success. It
	// returns NotFound if the bytes are in neither place, PartsMissing if the parts do not add up
	// to size, InProgress while a Write runs, and WrongState if parts are suspect. The caller
	// therefore calls Fence and Verify first. The journal remains until Remove.
	Seal(ctx context.Context, ref Ref, size drive.ByteSize) error
	// Unseal moves the content back to the staging, so that parts can be sent again. It may be
	// repeated after a crash.
	Unseal(ctx context.Context, ref Ref) error
	// OpenStaged gives random access to the staged bytes, holes included, or to the content if the
	// upload is sealed. The caller closes the object.
	OpenStaged(ctx context.Context, ref Ref) (Object, error)
	// Verify reads the suspect parts (Staged.Suspect), drops those that do not match their chaining
	// value, clears the suspicion, and returns the remaining parts.
	Verify(ctx context.Context, ref Ref, gen int64) (Staged, error)
	// Adopt durably moves all bytes of the staged upload from to the beginning of ref, without
	// copying. ref must have no bytes. They become parts of ref, and a tail if from ends inside a
	// part, and belong to no session. Afterwards from has no bytes; the caller may only Remove it.
	// Adopt may be repeated after a crash at any point.
	//
	// Adopt returns false and changes nothing if the bytes cannot become parts of ref as they are
	// (different part size, incomplete, not durable, suspect, or ref has bytes), or if the staging
	// does not support it.
	Adopt(ctx context.Context, ref, from Ref) (bool, error)

	// ListStaged calls fn for every staged upload and for every unexpected entry among them, in no
	// order. It stops at the first error of fn.
	ListStaged(ctx context.Context, fn func(Entry) error) error
	// QuarantineStaged moves an entry reported by ListStaged to the quarantine.
	QuarantineStaged(ctx context.Context, s Entry) error
}

// Ref identifies a staged upload and its shape.
type Ref struct {
	ID       drive.UploadID
	Begun    drive.Time     // creation time; its UTC date is part of the place
	PartSize drive.ByteSize // a power of two, at least 1 MiB
	Size     drive.ByteSize // UnknownSize if not declared
}

// UnknownSize is the size of an upload or body of undeclared length.
const UnknownSize drive.ByteSize = -1

// Write describes a part to be written and the right to write it.
type Write struct {
	N       int            // part number, from 0
	Gen     int64          // fencing token; must be greater than the last fenced gen
	Session [16]byte       // the login or token that sends the part: complete asks for a digest if several sessions sent parts
	Size    drive.ByteSize // length of the part, or UnknownSize
}

// Part describes an accepted part or tail.
type Part struct {
	N       int
	Size    drive.ByteSize
	CRC32   uint32     // IEEE, of its bytes
	CV      digest.CV  // BLAKE3 chaining value of the bytes at their offset in the file
	Root    digest.Sum // BLAKE3 of the bytes as a file of their own; set for part 0 only
	Session [16]byte   // the login or token that sent the part

	// Unread reports that the journal was lost and the part is known only from the bucket listing.
	// CRC32, CV and Root are zero until the bytes are read.
	Unread bool
}

// Staged is the state of a staged upload.
type Staged struct {
	Parts   []Part         // ordered by N
	Held    drive.ByteSize // bytes on disk, at least the sum of Parts and Tails
	Last    drive.Time     // when the last part was accepted, by the staging's clock, including before a restart; zero: no part yet
	Suspect bool           // a power loss may have taken bytes of Parts or Tails: call Verify before relying on them
	Tails   []Part         // incomplete parts, ordered by N, each with the Size that has arrived; see Extend

	// The following fields are set by shared stagings only.
	Writing int        // number of parts being written now, by any instance
	Now     drive.Time // the staging's clock when it answered, for comparison with Last; zero: use the local clock
}

// PendingExtend is a piece whose bytes are stored but not in the journal.
type PendingExtend interface {
	// Part returns the part that Extend would have returned.
	Part() Part
	// Commit adds the piece to the journal, with the errors of Extend. On an error the piece is
	// discarded.
	Commit(ctx context.Context) error
	// Discard deletes the piece and leaves the tail unchanged.
	Discard(ctx context.Context)
}

// Extend describes a piece to be appended to a tail and the right to write it.
type Extend struct {
	N       int            // part number, from 0
	Gen     int64          // fencing token, as in Write
	Session [16]byte       // the login or token that sends the piece
	At      drive.ByteSize // current length of the tail
	Whole   drive.ByteSize // length at which the tail becomes a part
}

// Write returns the Write that corresponds to e, of unknown length, for code common to both.
func (e Extend) Write() Write {
	return Write{N: e.N, Gen: e.Gen, Session: e.Session, Size: UnknownSize}
}

// CheckRef checks e against the upload's shape. It returns PartRange or PartSize for a part that
// the upload cannot have, and PartSize if e.At is negative or beyond e.Whole.
func (e Extend) CheckRef(ref Ref) error {
	w := e.Write()
	w.Size = e.Whole
	if err := ref.CheckWrite(w); err != nil {
		return err
	}
	if e.At < 0 || e.Whole <= 0 || e.At > e.Whole {
		return drive.Fail(drive.PartSize, "limit", e.Whole, "sent", e.At)
	}
	return nil
}

// OffsetError returns the OffsetMismatch error for a tail that is have bytes long instead of e.At.
// It does not compare the two.
func (e Extend) OffsetError(have drive.ByteSize) error {
	return drive.Fail(drive.OffsetMismatch, "part", e.N, "offset", have, "sent", e.At)
}

// CheckResult returns an error, without a kind, unless got is the part that results from appending
// a body of came bytes to the tail.
func (e Extend) CheckResult(got Part, came drive.ByteSize) error {
	if got.N != e.N || got.Size != e.At+came || got.Size > e.Whole {
		return fmt.Errorf("body ends part %d at byte %d, the tail of part %d is extended by %d from %d", got.N, got.Size, e.N, came, e.At)
	}
	return nil
}
