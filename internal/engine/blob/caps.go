package blob

import (
	"fmt"

	"smartdrive/internal/base/drive"
)

// Caps say what a Staging can and cannot do. They are data, read by its users and by blobtest.
type Caps struct {
	// Shared: other instances write to it too. What it holds may change at any moment without this
	// process; see Shared stagings.
	Shared bool
	// ReadableParts: OpenStaged works before Seal. Else it may be NotFound until the upload is
	// sealed, and answers for the content then.
	ReadableParts bool
	// MinPart is the smallest part that is not the last; zero: any.
	MinPart drive.ByteSize
}

// # Shared stagings
//
// Where two instances have sent a part at once, it is found only when it is to be entered that the
// journal has it: equal bytes are success, other bytes are ThereError too.
//
// A journal that was lost is rebuilt from what the store has, its parts Unread. With it the
// fences are lost, and which gen is the present one only the row knows: so it refuses every gen
// (WrongState) until a Fence names one. Else an instance that has not seen an upload parked would
// go on filling it, and nobody would be charged.
//
// Fence need not wait for a Write of another instance, if it makes sure that this Write never
// enters its part: that Write is WrongState then, though its body was read.
//
// Unseal must not take content away for which another instance's Seal has just vouched or will: it
// makes the parts writable again and leaves the content where it is. A later Seal replaces it. Who
// gives the upload up removes it (Store.Remove).

// ThereError refuses a Write: the journal has the part already, by this or another instance.
type ThereError struct{ Part Part }

func (e *ThereError) Error() string { return fmt.Sprintf("part %d is there already", e.Part.N) }

// Unwrap gives it the kind that a client may see who sent other bytes.
func (e *ThereError) Unwrap() error { return drive.Fail(drive.PartDiffers, "part", e.Part.N) }
