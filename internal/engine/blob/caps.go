package blob

import (
	"fmt"

	"example.org/smartdrive/internal/base/drive"
)

// Caps describe the abilities of a Staging for its callers and for blobtest.
type Caps struct {
	// Shared reports that other instances write to the same staging, so its contents may change at
	// any moment. See Shared stagings.
	Shared bool
	// ReadableParts reports that OpenStaged works before Seal. Otherwise OpenStaged may return
	// NotFound until the upload is sealed; then it opens the content.
	ReadableParts bool
	// MinPart is the minimum size of every part but the last; zero: no minimum.
	MinPart drive.ByteSize
}

// # Shared stagings
//
// If two instances send the same part concurrently, the conflict is detected only when the second
// one enters the part in the journal: equal bytes are success, different bytes are PartExistsError.
//
// A lost journal is rebuilt from the bucket listing, with all parts Unread. The fences are lost
// with it, and only the upload's row knows the current gen. The rebuilt journal therefore refuses
// every gen (WrongState) until a Fence names one. Otherwise an instance that has not seen the
// upload parked would continue to fill it, and no account would be charged.
//
// Fence need not wait for a Write of another instance if it ensures that this Write never enters
// its part. That Write then fails with WrongState although its body was read.
//
// Unseal must not remove content that a Seal of another instance has just confirmed or is about to
// confirm. It makes the parts writable again and leaves the content in its place; a later Seal
// replaces it. The caller that abandons the upload removes the content with Store.Remove.

// PartExistsError refuses a Write because the journal already contains Part, written by this or
// another instance.
type PartExistsError struct{ Part Part }

// Error returns a text for the log.
func (e *PartExistsError) Error() string { return fmt.Sprintf("part %d is there already", e.Part.N) }

// Unwrap returns the PartDiffers error that is shown to a client that sent different bytes.
func (e *PartExistsError) Unwrap() error { return drive.Fail(drive.PartDiffers, "part", e.Part.N) }
