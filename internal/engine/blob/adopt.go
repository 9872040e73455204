package blob

import (
	"smartdrive/internal/base/drive"
)

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
