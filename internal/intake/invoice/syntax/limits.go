package syntax

// Limits bound the cost of one document. A zero field means its default, given below.
type Limits struct {
	Bytes      int64 // of XML per document, including embedded files: 256 MiB
	Kept       int   // bytes of text that the model stores, and bytes of a line of NDJSON: 8 MiB
	Text       int   // bytes of one element's text or of one attribute, except embedded files: 64 KiB
	Depth      int   // nesting of elements: 64
	Attributes int   // per element: 64
	Items      int   // notes, attachments and all other repeating elements; a line counts as lineItems: 100,000
}

// lineItems is the number of items that a line counts as, because of its size in memory: 20,000
// empty lines take 40 MB.
const lineItems = 5

// withDefaults replaces zero fields by their defaults.
func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = 256 << 20
	}
	if l.Kept == 0 {
		l.Kept = 8 << 20
	}
	if l.Text == 0 {
		l.Text = 64 << 10
	}
	if l.Depth == 0 {
		l.Depth = 64
	}
	if l.Attributes == 0 {
		l.Attributes = 64
	}
	if l.Items == 0 {
		l.Items = 100_000
	}
	return l
}
