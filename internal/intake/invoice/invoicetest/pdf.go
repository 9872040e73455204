package invoicetest

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"
)

// PDF selects the structure of a PDF that Embed writes.
type PDF struct {
	Streams    bool // write the cross-reference table as a stream
	Packed     bool // write objects into an object stream where possible
	Associated bool // list the file in AF instead of the name tree
	Updated    bool // append an update, and write the file's name in UTF-16
}

// Embed returns a PDF without pages with one embedded file; with none if name is empty.
func (o PDF) Embed(name string, content []byte) []byte {
	w := &pdfWriter{opt: o, at: map[int]int{}}
	w.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	file := "(" + name + ")"
	if o.Updated {
		file = fmt.Sprintf("<FEFF%X>", strings.Join(strings.Split(name, ""), "\x00"))
		file = strings.Replace(file, "FEFF", "FEFF00", 1)
	}
	links := "/Names 2 0 R"
	if o.Associated {
		links = "/AF [4 0 R]"
	}
	if name == "" {
		links = ""
	}
	w.object(1, "<< /Type /Catalog "+links+" >>")
	w.object(2, "<< /EmbeddedFiles 3 0 R >>")
	w.object(3, "<< /Names [(a) 4 0 R] >>")
	w.object(4, "<< /Type /Filespec /F "+file+" /UF "+file+" /EF << /F 5 0 R >> /AFRelationship /Alternative >>")
	w.stream(5, "/Type /EmbeddedFile /Subtype /text#2Fxml", content)
	w.end()
	if o.Updated {
		from := w.last
		w.at = map[int]int{}
		w.object(2, "<< /EmbeddedFiles 3 0 R >> % an update")
		w.prev = fmt.Sprintf("/Prev %d", from)
		w.end()
	}
	return w.Bytes()
}

// pdfWriter writes a PDF.
type pdfWriter struct {
	bytes.Buffer
	opt    PDF
	at     map[int]int // offset of each object, by number
	packed []string    // objects of the object stream, each with its number in front
	prev   string
	last   int // offset of the last cross-reference table
}

// object writes object n, or keeps it for the object stream.
func (w *pdfWriter) object(n int, text string) {
	if w.opt.Packed {
		w.packed = append(w.packed, fmt.Sprintf("%d %s", n, text))
		return
	}
	w.at[n] = w.Len()
	fmt.Fprintf(w, "%d 0 obj\n%s\nendobj\n", n, text)
}

// stream writes object n as a compressed stream; about is the content of its dictionary.
func (w *pdfWriter) stream(n int, about string, content []byte) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	z.Write(content) //nolint:errcheck // a Buffer takes everything
	z.Close()        //nolint:errcheck // the same
	w.at[n] = w.Len()
	fmt.Fprintf(w, "%d 0 obj\n<< %s /Length %d /Filter /FlateDecode >>\nstream\n", n, about, packed.Len())
	w.Write(packed.Bytes())
	w.WriteString("\nendstream\nendobj\n")
}

// end writes the packed objects, the cross-reference table or stream, the trailer and startxref.
// Nothing may be written after it.
func (w *pdfWriter) end() {
	const size = 8
	if w.opt.Packed {
		var head, body strings.Builder
		for _, one := range w.packed {
			number, text, _ := strings.Cut(one, " ")
			fmt.Fprintf(&head, "%s %d ", number, body.Len())
			body.WriteString(text + "\n")
		}
		w.stream(6, fmt.Sprintf("/Type /ObjStm /N %d /First %d", len(w.packed), head.Len()), []byte(head.String()+body.String()))
	}
	w.last = w.Len()
	if w.opt.Streams {
		w.at[7] = w.last
		w.stream(7, fmt.Sprintf("/Type /XRef /Size %d /W [1 4 2] /Root 1 0 R %s", size, w.prev), w.rows(size))
	} else {
		w.table()
		fmt.Fprintf(w, "trailer\n<< /Size %d /Root 1 0 R %s >>\n", size, w.prev)
	}
	fmt.Fprintf(w, "startxref\n%d\n%%%%EOF\n", w.last)
}

// table writes a plain cross-reference table.
func (w *pdfWriter) table() {
	w.WriteString("xref\n0 1\n0000000000 65535 f \n")
	for n := 1; n < 8; n++ {
		if at, ok := w.at[n]; ok {
			fmt.Fprintf(w, "%d 1\n%010d 00000 n \n", n, at)
		}
	}
}

// rows returns the rows of an xref stream.
func (w *pdfWriter) rows(size int) []byte {
	rows := make([]byte, 0, size*7)
	for n := range size {
		kind, a, b := byte(0), 0, 0
		if at, ok := w.at[n]; ok {
			kind, a = 1, at
		}
		for i, one := range w.packed {
			if strings.HasPrefix(one, fmt.Sprintf("%d ", n)) {
				kind, a, b = 2, 6, i
			}
		}
		rows = append(rows, kind, byte(a>>24), byte(a>>16), byte(a>>8), byte(a), byte(b>>8), byte(b))
	}
	return rows
}
