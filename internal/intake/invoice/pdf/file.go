package pdf

import (
	"bytes"
	"errors"
	"io"
)

// Document is a PDF that is open.
type Document struct {
	in     io.ReaderAt
	size   int64
	limits Limits

	at      []place // of each object, by its number
	trailer dict
	loads   int
	work    int64
	packed  map[int64][]byte // streams of objects that were unpacked, by number; a few
}

// place is where an object lies: at an offset of the file, or in a stream of objects.
type place struct {
	offset int64 // in the file, or the number of the stream
	index  int32 // in the stream; -1: the object lies in the file, and 0 with offset 0 is none
}

// headBytes is how far into a file its header may come, and tailBytes how far from the end the
// last startxref may stand.
const (
	headBytes = 1024
	tailBytes = 2048
)

// Open reads the tables of a PDF. The reader is used until the last file has been read. Offsets
// count from the header (ISO 32000-1, Annex H, implementation note 13), or else from the start of
// the file.
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

// effort counts what was read, and ends what takes too much.
func (d *Document) effort(n int) error {
	if d.work += int64(n); d.work > d.limits.Work {
		return limited("more than %d bytes of the PDF would have to be read", d.limits.Work)
	}
	return nil
}

// window reads up to n bytes from an offset.
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

// firstWindow is how large the first window is that an object is read in; larger ones follow until
// it ends.
const firstWindow = 4 << 10

// parseAt reads an object of the file, without its stream; body is where a stream begins, or 0.
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

// parseIn reads "12 0 obj ...". Body is -1 when the end was not seen.
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

// load reads the object of a number, and where its stream begins if it has one.
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

// resolve follows references until there is an object.
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

func (d *Document) dictOf(value any) (dict, error) {
	found, err := d.resolve(value)
	is, _ := found.(dict)
	return is, err
}

func (d *Document) arrayOf(value any) (array, error) {
	found, err := d.resolve(value)
	is, _ := found.(array)
	return is, err
}

func (d *Document) intOf(value any) (int64, bool, error) {
	found, err := d.resolve(value)
	n, ok := found.(int64)
	return n, ok, err
}

// fromStream reads an object that lies in a stream of objects (7.5.7).
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
