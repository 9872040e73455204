package pdf

import "bytes"

// tables reads the cross-reference table at an offset and all older ones. The newest entry of an
// object counts (7.5.6). It fails with an Error of kind Damaged, or Limit for too many tables.
func (d *Document) tables(offset int64) error {
	seen := map[int64]bool{}
	for next := []int64{offset}; len(next) > 0; {
		at := next[0]
		next = next[1:]
		if seen[at] {
			return damaged("tables of the PDF refer to each other in a circle")
		}
		if seen[at] = true; len(seen) > d.limits.Tables {
			return limited("the PDF has more than %d tables of objects", d.limits.Tables)
		}
		trailer, err := d.table(at)
		if err != nil {
			return err
		}
		for _, key := range []name{"Root", "Encrypt"} {
			if value, ok := trailer[key]; ok && d.trailer[key] == nil {
				d.trailer[key] = value
			}
		}
		for _, key := range []name{"XRefStm", "Prev"} {
			if before, ok := trailer[key].(int64); ok {
				next = append(next, before)
			}
		}
	}
	return nil
}

// table reads one cross-reference table or stream into the document and returns its trailer. It
// fails with an Error of kind Damaged or Limit.
func (d *Document) table(offset int64) (dict, error) {
	head, err := d.window(offset, 64)
	if err != nil {
		return nil, err
	}
	p := parser{in: head}
	if p.keyword("xref") {
		return d.plainTable(offset + int64(p.pos))
	}
	return d.streamTable(offset)
}

// room grows the list of objects. More than Limits.Objects gives an Error of kind Limit.
func (d *Document) room(objects int64) error {
	if objects < 0 || objects > int64(d.limits.Objects) {
		return limited("the PDF has more than %d objects", d.limits.Objects)
	}
	if more := objects - int64(len(d.at)); more > 0 {
		d.at = append(d.at, make([]place, more)...)
	}
	return nil
}

// put sets the place of an object, unless a newer table has set it.
func (d *Document) put(number int64, at place) {
	if d.at[number] == (place{}) {
		d.at[number] = at
	}
}

// tableWindow is the number of bytes of a table that are read at a time: 800 rows of 20 bytes.
const tableWindow = 16_000

// plainTable reads the sections of a plain table and its trailer (7.5.4). It fails with an Error of
// kind Damaged or Limit.
func (d *Document) plainTable(offset int64) (dict, error) {
	for sections := 0; ; sections++ {
		if sections > d.limits.Objects {
			return nil, limited("a table of the PDF has too many sections")
		}
		head, err := d.window(offset, 64)
		if err != nil {
			return nil, err
		}
		p := parser{in: head}
		if p.keyword("trailer") {
			return d.trailerAt(offset + int64(p.pos))
		}
		first, ok := p.number()
		n, ok2 := p.number()
		if !ok || !ok2 {
			return nil, damaged("a table of the PDF is not one")
		}
		if n > int64(d.limits.Objects) || first > int64(d.limits.Objects) {
			return nil, limited("the PDF has more than %d objects", d.limits.Objects)
		}
		if err := d.room(first + n); err != nil {
			return nil, err
		}
		p.space()
		if offset, err = d.rows(offset+int64(p.pos), first, n); err != nil {
			return nil, err
		}
	}
}

// rows reads n rows such as "0000000017 00000 n", for objects from first on, and returns the offset
// behind them. It fails with an Error of kind Damaged or Limit.
func (d *Document) rows(offset, first, n int64) (int64, error) {
	for done := int64(0); done < n; {
		in, err := d.window(offset, tableWindow)
		if err != nil {
			return 0, err
		}
		p, last := parser{in: in}, 0
		for done < n {
			at, ok := p.number()
			_, ok2 := p.number()
			used := p.keyword("n")
			if !ok || !ok2 || !used && !p.keyword("f") || p.pos == len(in) && int64(len(in)) == tableWindow {
				break
			}
			if used && at > 0 {
				d.put(first+done, place{at, -1})
			}
			done++
			last = p.pos
		}
		if last == 0 {
			return 0, damaged("a table of the PDF ends too early")
		}
		offset += int64(last)
	}
	return offset, nil
}

// trailerAt parses the trailer dictionary at an offset. It fails with an Error of kind Damaged if
// there is none.
func (d *Document) trailerAt(offset int64) (dict, error) {
	in, err := d.window(offset, 64<<10)
	if err != nil {
		return nil, err
	}
	value, err := (&parser{in: in, depth: d.limits.Depth}).object()
	if err != nil {
		return nil, err
	}
	trailer, ok := value.(dict)
	if !ok {
		return nil, damaged("the PDF has no trailer")
	}
	return trailer, nil
}

// streamTable reads an xref stream (7.5.8): rows with fields of W bytes, for the object numbers of
// Index. It fails with an Error of kind Damaged or Limit.
func (d *Document) streamTable(offset int64) (dict, error) {
	value, body, err := d.parseAt(offset, -1)
	if err != nil {
		return nil, err
	}
	about, _ := value.(dict)
	if about == nil || body == 0 || about["Type"] != name("XRef") {
		return nil, damaged("the PDF does not say where its objects are")
	}
	var widths [3]int
	list, _ := about["W"].(array)
	for i := range min(len(list), 3) {
		w, _ := list[i].(int64)
		if w < 0 || w > 8 {
			return nil, damaged("a table of the PDF is not one")
		}
		widths[i] = int(w)
	}
	width := widths[0] + widths[1] + widths[2]
	size, _ := about["Size"].(int64)
	if len(list) < 3 || width == 0 {
		return nil, damaged("a table of the PDF is not one")
	}
	if err := d.room(size); err != nil {
		return nil, err
	}
	raw, err := d.unpack(about, body, min(d.limits.Unpack, int64(d.limits.Objects)*int64(width)))
	if err != nil {
		return nil, err
	}
	index, ok := about["Index"].(array)
	if !ok {
		index = array{int64(0), size}
	}
	return about, d.streamRows(raw, index, widths)
}

// streamRows sets the places of objects from the rows of an xref stream. Rows for objects outside
// of the table and an incomplete last row are ignored. It always returns nil.
func (d *Document) streamRows(raw []byte, index array, widths [3]int) error {
	in := bytes.NewReader(raw)
	field := func(width, absent int) int64 {
		if width == 0 {
			return int64(absent)
		}
		n := int64(0)
		for range width {
			c, _ := in.ReadByte() // cannot fail: the row is complete
			n = n<<8 | int64(c)
		}
		return n
	}
	for i := 0; i+1 < len(index); i += 2 {
		first, _ := index[i].(int64)
		n, _ := index[i+1].(int64)
		for number := first; number < first+n && in.Len() >= widths[0]+widths[1]+widths[2]; number++ {
			kind, a, b := field(widths[0], 1), field(widths[1], 0), field(widths[2], 0)
			if number < 0 || number >= int64(len(d.at)) || a <= 0 {
				continue
			}
			switch {
			case kind == 1:
				d.put(number, place{a, -1})
			case kind == 2 && b >= 0 && b < 1<<31:
				d.put(number, place{a, int32(b)})
			}
		}
	}
	return nil
}
