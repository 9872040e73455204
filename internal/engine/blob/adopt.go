package blob

import (
	"context"

	"smartdrive/internal/base/drive"
)

// Adopter is the optional power of a Staging to give an upload the bytes of another one without copying them.
type Adopter interface {
	// Adopt makes all bytes of from the beginning of ref, which has none yet, durably. They are parts of ref then, and the tail of one
	// where from ends inside a part. They belong to no session. From is left without bytes; whatever it was, only Remove of it is right
	// from then on. It may be redone after a crash at any point.
	//
	// False changes nothing: they cannot be parts of ref as they lie (another part size, not complete, not durable or in doubt, ref has
	// bytes), or the staging does not know how.
	Adopt(ctx context.Context, ref, from Ref) (bool, error)
}

// Adopt calls a staging's Adopt if it has one.
func Adopt(ctx context.Context, s Staging, ref, from Ref) (bool, error) {
	if a, ok := s.(Adopter); ok {
		return a.Adopt(ctx, ref, from)
	}
	return false, nil
}

// Source is where the bytes of a Body lie already.
type Source struct {
	Object Object
	Offset drive.ByteSize
	Size   drive.ByteSize
}

// Copied is the optional interface of a Body whose bytes lie elsewhere already; a Body of NewBody has it. A driver that can share them
// need not write what it reads, but reads it all the same, for that is how it is hashed.
type Copied interface {
	Sources() []Source // in order, all of the body; nil: it comes from somewhere else
}

// SourcesOf returns the sources of a body, if it says them.
func SourcesOf(b Body) []Source {
	if c, ok := b.(Copied); ok {
		return c.Sources()
	}
	return nil
}
