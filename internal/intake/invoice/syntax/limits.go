package syntax

// Limits bound what one document may cost. A zero field is its default.
type Limits struct {
	Bytes      int64 // of the XML of one document, embedded files included: 256 MiB
	Kept       int   // bytes of text that its model keeps, and of a line of NDJSON: 8 MiB
	Text       int   // bytes of one element's text or one attribute, embedded files apart: 64 KiB
	Depth      int   // of elements: 64
	Attributes int   // of one element: 64
	Items      int   // notes, attachments, and whatever else repeats; a line counts as lineItems: 100,000
}

// lineItems is what a line counts as, by its size in memory: 20,000 lines that say nothing take 40
// MB.
const lineItems = 5

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
