// Package pdf finds the files that are embedded in a PDF (ISO 32000-2, 7.11.4): Factur-X, ZUGFeRD
// and XRechnung carry an invoice that way. It reads nothing else of a PDF, and shows nothing.
//
//	%PDF-1.7
//	 objects: 12 0 obj << ... >> endobj
//	 xref table, or a stream of one ──/Prev──► older ones
//	 trailer << /Root ... >>
//	startxref 4711 %%EOF
//
//	Root ─┬─ Names / EmbeddedFiles: a tree of names ──► file specification ──EF──► stream
//	      └─ AF: associated files ──────────────────────┘
//
// It trusts nothing: every table, object, stream and walk has a limit (Limits), what refers to
// itself is seen, and encryption is refused. Nothing is repaired: what a damaged file holds cannot
// be known.
package pdf

import "fmt"

// Kind says what is wrong with a PDF.
type Kind uint8

// The kinds.
const (
	Damaged   Kind = iota // its structure cannot be followed
	Encrypted             // it asks for a password or a certificate
	Limit                 // larger, deeper or longer than Limits allow
	Unknown               // a way to store things that is not read here
)

// Error says why a PDF was not read, as an English sentence for its sender.
type Error struct {
	Kind Kind
	Text string
}

func (e *Error) Error() string { return e.Text }

func damaged(format string, args ...any) error { return &Error{Damaged, fmt.Sprintf(format, args...)} }

func limited(format string, args ...any) error { return &Error{Limit, fmt.Sprintf(format, args...)} }

// Limits bound what a PDF may cost. A zero field is its default.
type Limits struct {
	Objects int   // that the file says it has, of which each takes 16 bytes here: 200,000
	Tables  int   // of objects, each an update of the file: 100
	Object  int   // bytes of an object without its stream: 1 MiB
	Depth   int   // of objects in each other, and of the tree of names: 32
	Loads   int   // objects that are read: 5,000
	Work    int64 // bytes that are read or unpacked to find things: 256 MiB
	Unpack  int64 // bytes of a stream that objects are read from: 8 MiB
	Files   int   // that are embedded: 1,000
	File    int64 // bytes of an embedded file, unpacked: 256 MiB
}

func (l Limits) withDefaults() Limits {
	set := func(at *int, value int) {
		if *at == 0 {
			*at = value
		}
	}
	set(&l.Objects, 200_000)
	set(&l.Tables, 100)
	set(&l.Object, 1<<20)
	set(&l.Depth, 32)
	set(&l.Loads, 5_000)
	set(&l.Files, 1_000)
	if l.Work == 0 {
		l.Work = 256 << 20
	}
	if l.Unpack == 0 {
		l.Unpack = 8 << 20
	}
	if l.File == 0 {
		l.File = 256 << 20
	}
	return l
}
