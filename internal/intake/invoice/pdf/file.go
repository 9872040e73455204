package pdf

import (
	"bytes"
	"errors"
	"io"
)

// Document is an open PDF. It is not safe for concurrent use.
type Document struct {
	in     io.ReaderAt
	size   int64
	limits Limits

	at      []place // of each object, by number
	trailer dict
	loads   int              // number of loads so far; see Limits.Loads
	work    int64            // bytes read so far; see Limits.Work
	packed  map[int64][]byte // up to two decompressed object streams, by number
}

// place is the location of an object: an offset in the file, or an index in an object stream.
type place struct {
	offset int64 // in the file, or the number of the object stream
	index  int32 // in the object stream; -1: the object is in the file; offset 0 and index 0: there is no such object
}

// headBytes is the number of leading bytes that are searched for the header, tailBytes the number
// of final bytes that are searched for startxref.
const (
	headBytes = 1024
	tailBytes = 2048
)

// Open reads the cross-reference tables of a PDF. in must stay usable as long as files are read;
// there is nothing to close. Offsets are counted from the header (ISO 32000-1, Annex H,
// implementation note 13), and if that fails, from the start of the file. *Error: the PDF is
// invalid, encrypted or too large.
func Open(in io.ReaderAt, size int64, limits Limits) (*Document, error) {
	head := make([]byte, min(size, headBytes))
	n, err := in.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	begin := int64(bytes.Index(head[:n], []byte("%PDF-")))
	if begin < 0 {
		return nil, damaged("the file is not a PDF")
	}
	d, err := open(io.NewSectionReader(in, begin, size-begin), size-begin, limits)
	if e, ok := errors.AsType[*Error](err); begin > 0 && ok && e.Kind == Damaged {
		return open(in, size, limits)
	}
	return d, err
}

// open reads the cross-reference tables of a PDF, with offsets from the start of in. It fails with
// an Error of kind Damaged, Limit or Encrypted, or an error of reading in.
func open(in io.ReaderAt, size int64, limits Limits) (*Document, error) {
	d := &Document{in: in, size: size, limits: limits.withDefaults(), trailer: dict{}, packed: map[int64][]byte{}}
	tail, err := d.window(max(0, size-tailBytes), tailBytes)
	if err != nil {
		return nil, err
	}
	last := bytes.LastIndex(tail, []byte("startxref"))
	if last < 0 {
		return nil, damaged("the PDF has no end: it is not complete")
	}
	p := parser{in: tail, pos: last + len("startxref")}
	offset, ok := p.number()
	if !ok {
		return nil, damaged("the PDF does not say where its objects are")
	}
	if err := d.tables(offset); err != nil {
		return nil, err
	}
	if _, encrypted := d.trailer["Encrypt"]; encrypted {
		return nil, &Error{Encrypted, "the PDF is encrypted"}
	}
	return d, nil
}

// effort adds n bytes to the work done. It returns an Error of kind Limit if that exceeds
// Limits.Work, or the error of Limits.Spend.
func (d *Document) effort(n int) error {
	if d.work += int64(n); d.work > d.limits.Work {
		return limited("more than %d bytes of the PDF would have to be read", d.limits.Work)
	}
	if d.limits.Spend != nil {
		return d.limits.Spend(n)
	}
	return nil
}

// window reads up to n bytes at an offset; fewer at the end of the file. It fails with an Error of
// kind Damaged for an offset outside of the file and Limit once too much was read in total.
func (d *Document) window(offset int64, n int) ([]byte, error) {
	if offset < 0 || offset > d.size {
		return nil, damaged("the PDF refers to what is not in it")
	}
	buf := make([]byte, min(int64(n), d.size-offset))
	got, err := d.in.ReadAt(buf, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf[:got], d.effort(got)
}

// firstWindow is the size of the first window that parseAt reads for an object; the next windows
// are larger.
const firstWindow = 4 << 10

// parseAt parses the object at an offset. The result body is the offset of its stream, 0 without a
// stream. It reads growing windows up to Limits.Object and fails with an Error of kind Damaged or
// Limit.
func (d *Document) parseAt(offset int64, number int64) (value any, body int64, err error) {
	for n := firstWindow; ; n *= 8 {
		in, err := d.window(offset, min(n, d.limits.Object))
		if err != nil {
			return nil, 0, err
		}
		value, body, err = d.parseIn(in, offset, number)
		whole := len(in) < min(n, d.limits.Object) || int64(len(in)) == d.size-offset
		if err == nil && body != -1 || whole {
			return value, max(body, 0), err
		}
		if n >= d.limits.Object {
			if err == nil {
				err = limited("an object of the PDF is larger than %d bytes", d.limits.Object)
			}
			return nil, 0, err
		}
	}
}

// parseIn parses "12 0 obj ...". A negative number accepts any object. The result body is -1 if the
// window ends before it is known whether a stream follows. It fails with an Error of kind Damaged,
// which a larger window may avoid.
func (d *Document) parseIn(in []byte, offset, number int64) (value any, body int64, err error) {
	p := parser{in: in, depth: d.limits.Depth}
	if n, ok := p.number(); !ok || number >= 0 && n != number {
		return nil, 0, damaged("object %d of the PDF is not where it is said to be", number)
	}
	if _, ok := p.number(); !ok || !p.keyword("obj") {
		return nil, 0, damaged("object %d of the PDF is not where it is said to be", number)
	}
	if value, err = p.object(); err != nil {
		return nil, 0, err
	}
	p.space()
	if p.pos+len("stream\r\n") > len(in) {
		return value, -1, nil
	}
	if !p.keyword("stream") {
		return value, 0, nil
	}
	if in[p.pos] == '\r' {
		p.pos++
	}
	if in[p.pos] == '\n' {
		p.pos++
	}
	return value, offset + int64(p.pos), nil
}

// load returns an object by number, and the offset of its stream, 0 without a stream. A missing
// object is nil.
func (d *Document) load(number int64) (value any, body int64, err error) {
	if d.loads++; d.loads > d.limits.Loads {
		return nil, 0, limited("more than %d objects of the PDF would have to be read", d.limits.Loads)
	}
	if number <= 0 || number >= int64(len(d.at)) {
		return nil, 0, nil // a missing object is null (7.3.10)
	}
	switch at := d.at[number]; {
	case at.offset == 0:
		return nil, 0, nil
	case at.index < 0:
		return d.parseAt(at.offset, number)
	default:
		value, err = d.fromStream(at.offset, number)
		return value, 0, err
	}
}

// resolve follows references and returns the object. A cycle gives an Error of kind Damaged.
func (d *Document) resolve(value any) (any, error) {
	for range d.limits.Depth {
		r, ok := value.(ref)
		if !ok {
			return value, nil
		}
		var err error
		if value, _, err = d.load(int64(r)); err != nil {
			return nil, err
		}
	}
	return nil, damaged("references of the PDF go round in a circle")
}

// dictOf resolves a value, following references; nil without an error if it is not a dictionary.
func (d *Document) dictOf(value any) (dict, error) {
	found, err := d.resolve(value)
	is, _ := found.(dict)
	return is, err
}

// arrayOf resolves a value, following references; nil without an error if it is not an array.
func (d *Document) arrayOf(value any) (array, error) {
	found, err := d.resolve(value)
	is, _ := found.(array)
	return is, err
}

// intOf resolves a value, following references. The bool reports whether it is an integer; the
// error is that of reading.
func (d *Document) intOf(value any) (int64, bool, error) {
	found, err := d.resolve(value)
	n, ok := found.(int64)
	return n, ok, err
}

// fromStream returns an object of an object stream (7.5.7). It caches the unpacked streams of the
// last few calls. It fails with an Error of kind Damaged or Limit.
func (d *Document) fromStream(stream, number int64) (any, error) {
	if stream <= 0 || stream >= int64(len(d.at)) || d.at[stream].index >= 0 {
		return nil, damaged("a stream of objects of the PDF lies in another one")
	}
	value, body, err := d.load(stream)
	if err != nil {
		return nil, err
	}
	about, _ := value.(dict)
	if about == nil || body == 0 {
		return nil, damaged("object %d of the PDF is not a stream of objects", stream)
	}
	raw, ok := d.packed[stream]
	if !ok {
		if raw, err = d.unpack(about, body, d.limits.Unpack); err != nil {
			return nil, err
		}
		if len(d.packed) >= 2 {
			clear(d.packed)
		}
		d.packed[stream] = raw
	}
	n, _ := about["N"].(int64)
	first, _ := about["First"].(int64)
	if first < 0 || first > int64(len(raw)) || n < 0 || n > int64(d.limits.Objects) {
		return nil, damaged("a stream of objects of the PDF is not one")
	}
	if err := d.effort(int(first)); err != nil {
		return nil, err
	}
	p := parser{in: raw[:first]}
	for range n {
		has, ok := p.number()
		offset, ok2 := p.number()
		if !ok || !ok2 {
			break
		}
		if has == number {
			if offset > int64(len(raw))-first {
				break
			}
			return (&parser{in: raw[first+offset:], depth: d.limits.Depth}).object()
		}
	}
	return nil, damaged("object %d of the PDF is not where it is said to be", number)
}
