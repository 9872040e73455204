// Package pdf finds the files embedded in a PDF (ISO 32000-2, 7.11.4). Factur-X, ZUGFeRD and
// XRechnung embed invoices that way. The package reads nothing else of a PDF.
//
//	%PDF-1.7
//	 objects: 12 0 obj << ... >> endobj
//	 xref table, or an xref stream ──/Prev──► older ones
//	 trailer << /Root ... >>
//	startxref 4711 %%EOF
//
//	Root ─┬─ Names / EmbeddedFiles: name tree ──► file specification ──EF──► stream
//	      └─ AF: associated files ──────────────┘
//
// Input is untrusted: every table, object, stream and traversal has a limit (Limits), cycles are
// detected, and encrypted files are rejected. The package does not repair damaged files, because
// their content is uncertain.
package pdf

import "fmt"

// Kind is the reason why a PDF cannot be read.
type Kind uint8

// Kinds of errors.
const (
	Damaged   Kind = iota // its structure is invalid
	Encrypted             // it requires a password or a certificate
	Limit                 // exceeds Limits
	Unknown               // uses an unsupported encoding
)

// Error is the reason why a PDF cannot be read, with an English sentence for its sender.
type Error struct {
	Kind Kind
	Text string
}

func (e *Error) Error() string { return e.Text }

// damaged returns an Error of kind Damaged with the formatted text.
func damaged(format string, args ...any) error { return &Error{Damaged, fmt.Sprintf(format, args...)} }

// limited returns an Error of kind Limit with the formatted text.
func limited(format string, args ...any) error { return &Error{Limit, fmt.Sprintf(format, args...)} }

// Limits bound the cost of a PDF. A zero field means its default, given below.
type Limits struct {
	Objects int   // that the file declares, 16 bytes of memory each: 200,000
	Tables  int   // cross-reference tables, one per update of the file: 100
	Object  int   // bytes of an object without its stream: 1 MiB
	Depth   int   // nesting of objects, and of the name tree: 32
	Loads   int   // objects that are read: 5,000
	Work    int64 // bytes read or decompressed to find the files: 256 MiB
	Unpack  int64 // bytes of an object stream, decompressed: 8 MiB
	Files   int   // embedded files: 1,000
	File    int64 // bytes of an embedded file, decompressed: 256 MiB

	// Spend is told the bytes that Work counts; its error ends the work. nil: nobody is told.
	Spend func(bytes int) error
}

// withDefaults replaces zero fields by their defaults.
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
