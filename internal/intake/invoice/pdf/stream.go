package pdf

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
)

// open returns the decoded content of a stream. Reading more than limit bytes gives an Error of
// kind Limit.
func (d *Document) open(about dict, body, limit int64) (io.Reader, error) {
	length, ok, err := d.intOf(about["Length"])
	if err != nil {
		return nil, err
	}
	if !ok || length < 0 || length > d.size-body {
		return nil, damaged("a stream of the PDF is longer than the file")
	}
	var raw io.Reader = io.NewSectionReader(d.in, body, length)
	filter, err := d.resolve(about["Filter"])
	if err != nil {
		return nil, err
	}
	if list, ok := filter.(array); ok {
		if len(list) > 1 {
			return nil, &Error{Unknown, "a stream of the PDF is packed in several ways, which is not supported"}
		}
		if filter = nil; len(list) == 1 {
			if filter, err = d.resolve(list[0]); err != nil {
				return nil, err
			}
		}
	}
	switch filter {
	case nil:
	case name("FlateDecode"), name("Fl"):
		if raw, err = zlib.NewReader(raw); err != nil {
			return nil, broken(err)
		}
	default:
		return nil, &Error{Unknown, "a stream of the PDF is packed in a way that is not supported"}
	}
	return &bounded{in: raw, left: limit, limit: limit}, nil
}

// broken converts an error of a decompressor into an Error of kind Damaged. It returns errors of
// the underlying reader unchanged.
func broken(err error) error {
	if errors.Is(err, zlib.ErrHeader) || errors.Is(err, zlib.ErrChecksum) || errors.Is(err, zlib.ErrDictionary) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return damaged("a stream of the PDF cannot be unpacked")
	}
	if _, ok := errors.AsType[flateError](err); ok {
		return damaged("a stream of the PDF cannot be unpacked")
	}
	return err
}

// bounded is a reader that fails after limit bytes.
type bounded struct {
	in          io.Reader
	left, limit int64
}

// Read fails with an Error of kind Limit once more than limit bytes are unpacked, and with the
// error of broken for damaged data.
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.in.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, limited("a stream of the PDF is larger than %d bytes when it is unpacked", b.limit)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = broken(err)
	}
	return n, err
}

// unpack returns the whole content of an object stream or xref stream, with its PNG predictor
// undone. It fails with an Error of kind Limit above limit bytes, or Damaged.
func (d *Document) unpack(about dict, body, limit int64) ([]byte, error) {
	in, err := d.open(about, body, limit)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(in)
	if err == nil {
		err = d.effort(len(raw))
	}
	if err != nil {
		return nil, err
	}
	parms, err := d.dictOf(first(about["DecodeParms"]))
	if err != nil || parms == nil {
		return raw, err
	}
	switch predictor, _ := parms["Predictor"].(int64); {
	case predictor < 2:
		return raw, nil
	case predictor < 10:
		return nil, &Error{Unknown, "a table of the PDF is packed in a way that is not supported"}
	}
	columns, ok := parms["Columns"].(int64)
	if !ok {
		columns = 1
	}
	colors, depth := parms["Colors"], parms["BitsPerComponent"]
	if columns < 1 || columns > 64 || colors != nil && colors != int64(1) || depth != nil && depth != int64(8) {
		return nil, &Error{Unknown, "a table of the PDF is packed in a way that is not supported"}
	}
	return undoPredictor(raw, int(columns))
}

// first returns the first element of an array, nil of an empty one, and any other value itself.
func first(value any) any {
	if list, ok := value.(array); ok {
		if len(list) == 0 {
			return nil
		}
		return list[0]
	}
	return value
}

// undoPredictor undoes the PNG filters (RFC 2083 §6) for rows of one byte per column. It fails with
// an Error of kind Damaged for an unknown filter.
func undoPredictor(raw []byte, columns int) ([]byte, error) {
	var out bytes.Buffer
	above := make([]byte, columns)
	for ; len(raw) > columns; raw = raw[columns+1:] {
		kind, row := raw[0], bytes.Clone(raw[1:columns+1])
		for i := range row {
			var left, corner byte
			if i > 0 {
				left, corner = row[i-1], above[i-1]
			}
			switch kind {
			case 0:
			case 1:
				row[i] += left
			case 2:
				row[i] += above[i]
			case 3:
				row[i] += byte((int(left) + int(above[i])) / 2)
			case 4:
				row[i] += paeth(left, above[i], corner)
			default:
				return nil, damaged("a table of the PDF cannot be unpacked")
			}
		}
		out.Write(row)
		above = row
	}
	return out.Bytes(), nil
}

// paeth is the PNG predictor of type 4.
func paeth(a, b, c byte) byte {
	p := int(a) + int(b) - int(c)
	abs := func(n int) int { return max(n, -n) }
	pa, pb, pc := abs(p-int(a)), abs(p-int(b)), abs(p-int(c))
	switch {
	case pa <= pb && pa <= pc:
		return a
	case pb <= pc:
		return b
	}
	return c
}
