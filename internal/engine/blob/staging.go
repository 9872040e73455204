package blob

import (
	"context"
	"fmt"
	"io"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
)

// Staging holds the parts of uploads until they are sealed: turned into content of the Store beside
// it without being copied. Only Create makes a staged upload; every other method answers NotFound
// for one that is not there. An upload that is sealed is still there until Remove: Load, Fence and
// Verify answer for it from the journal, Write, Extend and Drop are WrongState.
//
// The journal of a staging is the durable list of what has arrived. Fencing: a staging refuses
// (WrongState) every Write, Extend and Drop whose gen is not greater than the last one that was
// fenced.
//
// A part arrives whole (Write) or in pieces, one after the other (Extend). What has arrived of a
// part that is not whole is its tail: the journal names it, it is held, fenced, verified, dropped
// and removed like a part, but it is not one of Staged.Parts.
type Staging interface {
	// Caps says what this staging can and cannot do. MinPart may change while an installation
	// moves.
	Caps() Caps

	// Create makes an empty staged upload, durably. Existing already is not an error.
	Create(ctx context.Context, ref Ref) error
	// Write stores part w.N from body at its final place. When it returns nil the part is in the
	// journal and survives kill -9 (P2). On any error, the context's included, nothing of this
	// attempt stays and the part counts as not there, unless the Write was refused before it began
	// (NotFound, WrongState, InProgress, PartRange, PartSize of w, or ThereError). The caller lets
	// one Write per part run at a time; a second one is InProgress and changes nothing. A cancelled
	// ctx does not interrupt a Read of body: who cancels makes the body's reader fail. Bytes that
	// all arrived are accepted even if ctx ends then.
	//
	// A part that the journal has already is ThereError before anything of the body is read: who
	// sends other bytes drops it first. One whose bytes nobody vouches for (Part.Unread,
	// Staged.Suspect) is replaced as if it were not there.
	Write(ctx context.Context, ref Ref, w Write, body Body) (Part, error)
	// Extend adds body at the end of the tail of part e.N, which has e.At bytes; 0: there is none.
	// When it returns nil the longer tail is in the journal and survives kill -9; once it has
	// e.Whole bytes it is a part. An empty body makes a part of a tail that has e.Whole bytes
	// already, and else changes nothing. On any error the tail is as it was.
	//
	// Where the tail has another length, or the part is there, nothing of body is read:
	// OffsetMismatch. Else it is refused as a Write is, and a Write beside it is InProgress; one
	// after it replaces the tail. What is written does not depend on the length of the tail, but
	// for what a store that cannot append costs: there pieces are gathered now and then, each byte
	// O(log) times.
	Extend(ctx context.Context, ref Ref, e Extend, body Body) (Part, error)
	// Withhold is Extend, but what has come stays out of the journal: nobody is told of it, and it
	// has not come if the process dies. The part is being written until Enter or Discard of what is
	// returned; one of them must be called.
	Withhold(ctx context.Context, ref Ref, e Extend, body Body) (Withheld, error)
	// OpenTail reads the tail of part n from its first byte. NotFound when there is none.
	OpenTail(ctx context.Context, ref Ref, n int) (io.ReadCloser, error)
	// Drop takes a part out of the journal and frees its bytes. A part that is not there is no
	// error, one that is being written is InProgress.
	Drop(ctx context.Context, ref Ref, gen int64, n int) error
	// Load returns what has arrived, freeing first what a crash left torn. It does not check
	// suspect parts; see Suspect.
	Load(ctx context.Context, ref Ref) (Staged, error)
	// Fence refuses all further Writes with this gen or a smaller one, waits for those that are
	// running (it does not stop them: a caller in a hurry cancels them), makes what arrived durable
	// against power loss, and returns what is held. Repeating it is harmless; it is the way on
	// after an error, an expired ctx included, which leaves the gen refused.
	Fence(ctx context.Context, ref Ref, gen int64) (Staged, error)
	// Remove deletes a staged upload with all its bytes, but never sealed content. A missing one is
	// no error. It needs no room on a full disk and no Fence before it: a Write that still runs
	// ends with NotFound.
	Remove(ctx context.Context, ref Ref) error

	// Seal makes the staged bytes the content named after the upload, durably: cut to size, synced,
	// moved. It may be redone after a crash at any point: bytes that are in place already are
	// success. Bytes in neither place are NotFound, parts that do not make up size are
	// PartsMissing, a Write that runs is InProgress, suspect parts are WrongState: Fence and Verify
	// come first. The journal stays until Remove.
	Seal(ctx context.Context, ref Ref, size drive.ByteSize) error
	// Unseal moves the content back to the staging, so that parts can be sent again. Redoable like
	// Seal.
	Unseal(ctx context.Context, ref Ref) error
	// OpenStaged gives random access to the staged bytes, holes included, or to the content if it
	// is sealed already.
	OpenStaged(ctx context.Context, ref Ref) (Object, error)
	// Verify reads parts whose bytes a power loss may have taken (Staged.Suspect), drops those that
	// no longer match their chaining value, and returns what is left. It clears the suspicion.
	Verify(ctx context.Context, ref Ref, gen int64) (Staged, error)
	// Adopt makes all bytes of from the beginning of ref, which has none yet, durably and without
	// copying them. They are parts of ref then, and the tail of one where from ends inside a part.
	// They belong to no session. From is left without bytes; whatever it was, only Remove of it is
	// right from then on. It may be redone after a crash at any point.
	//
	// False changes nothing: they cannot be parts of ref as they lie (another part size, not
	// complete, not durable or in doubt, ref has bytes), or the staging cannot do it.
	Adopt(ctx context.Context, ref, from Ref) (bool, error)

	// ListStaged calls fn for every staged upload there is, and for everything else that lies where
	// they lie.
	ListStaged(ctx context.Context, fn func(Stray) error) error
	// QuarantineStaged moves something that ListStaged showed out of the way and keeps it.
	QuarantineStaged(ctx context.Context, s Stray) error
}

// Ref names a staged upload and tells its shape.
type Ref struct {
	ID       drive.UploadID
	Begun    drive.Time     // when it began: its UTC date is part of the place
	PartSize drive.ByteSize // a power of two, at least 1 MiB
	Size     drive.ByteSize // UnknownSize when it was not declared
}

// UnknownSize is the size of an upload whose length was not declared.
const UnknownSize drive.ByteSize = -1

// Write says which part comes and under which right.
type Write struct {
	N       int
	Gen     int64
	Session [16]byte // the login or token that sends it: complete asks for a digest where several sent parts
	Size    drive.ByteSize
}

// Part is an accepted part.
type Part struct {
	N       int
	Size    drive.ByteSize
	CRC32   uint32     // IEEE, of its bytes
	CV      digest.CV  // BLAKE3 chaining value at its place in the file
	Root    digest.Sum // BLAKE3 of its bytes as a file of their own; only part 0 has it
	Session [16]byte

	// Unread: the journal was lost, and the part found again at the store with nothing known but
	// its size. CRC32, CV and Root are zero until somebody reads it.
	Unread bool
}

// Staged is what a staging holds of an upload.
type Staged struct {
	Parts   []Part         // in order of N
	Held    drive.ByteSize // bytes on disk for it, never less than the sum of Parts and Tails
	Last    drive.Time     // when the last part was accepted, by the staging's clock, also before a restart; zero when none was
	Suspect bool           // a power loss may have taken bytes of Parts or Tails: call Verify before relying on them
	Tails   []Part         // beginnings of parts, in order of N: Size bytes of each are there; see Extend

	// Of shared stagings only:
	Writing int        // parts that are being written just now, by whatever instance
	Now     drive.Time // the staging's clock when it answered, to compare Last with; zero: the clock is this process's
}

// Withheld is a piece whose bytes are there and that the journal does not name yet.
type Withheld interface {
	// Part is what Extend would have returned.
	Part() Part
	// Enter does what is left of Extend, with its errors: then it is discarded.
	Enter(ctx context.Context) error
	// Discard leaves the tail as it was before.
	Discard(ctx context.Context)
}

// Extend says which piece comes and under which right.
type Extend struct {
	N       int
	Gen     int64
	Session [16]byte
	At      drive.ByteSize // length of the tail
	Whole   drive.ByteSize // length that makes it a part
}

// Write is the Extend as a Write of the part, for what is the same with both. The length of what
// comes is not known.
func (e Extend) Write() Write {
	return Write{N: e.N, Gen: e.Gen, Session: e.Session, Size: UnknownSize}
}

// Admits keeps a tail inside its part, and the part inside its file and its slot.
func (e Extend) Admits(ref Ref) error {
	w := e.Write()
	w.Size = e.Whole
	if err := ref.Admits(w); err != nil {
		return err
	}
	if e.At < 0 || e.Whole <= 0 || e.At > e.Whole {
		return drive.Fail(drive.PartSize, "limit", e.Whole, "sent", e.At)
	}
	return nil
}

// Moved is the error of an Extend whose tail has another length than it says.
func (e Extend) Moved(have drive.ByteSize) error {
	return drive.Fail(drive.OffsetMismatch, "part", e.N, "offset", have, "sent", e.At)
}

// Check says whether a body was one of this Extend.
func (e Extend) Check(got Part, came drive.ByteSize) error {
	if got.N != e.N || got.Size != e.At+came || got.Size > e.Whole {
		return fmt.Errorf("body ends part %d at byte %d, the tail of part %d is extended by %d from %d", got.N, got.Size, e.N, came, e.At)
	}
	return nil
}
