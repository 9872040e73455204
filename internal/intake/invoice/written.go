package invoice

// Written describes the file that a document was read from: its syntax, and findings about the file
// that the model cannot express. It is not content: hash and JSON leave it out, and documents that
// differ only in it are equal.
type Written struct {
	Syntax     Syntax
	CreditNote bool     // the root element is a credit note
	Breaches   []Breach // breaches of rules that only the file can show, at most MaxBreaches
}

// Syntax is the EN 16931 syntax of a file. Some rules depend on it.
type Syntax uint8

// Syntaxes.
const (
	OwnSyntax Syntax = iota // the own model, or a national format
	UBLSyntax
	CIISyntax
)

// Breach is a place in a file that breaks a rule. Rule is the rule's name. Place is an XPath such
// as /Invoice/cac:InvoiceLine/cbc:Note.
type Breach struct {
	Rule  string
	Place string
	Line  int // line in the file, from 1
}

// MaxBreaches is the maximum number of breaches stored per document: enough to repair it.
const MaxBreaches = 64

// Equal always returns true, because Written is not content. The package go-cmp calls it.
func (Written) Equal(Written) bool { return true }
