package pdf

import (
	"cmp"
	"compress/flate"
	"io"
)

// flateError is the error of damaged compressed data, for errors.AsType.
type flateError = flate.CorruptInputError

// File is an embedded file. Its name comes from the PDF unchecked: use it for comparison only, not
// as a path.
type File struct {
	Name         string
	Relationship string // AFRelationship, such as Alternative, Data or Source; empty: not given

	doc    *Document
	stream ref
}

// Files returns the embedded files: those of the name tree, then those associated with the
// document, each once. Without any the result is empty. It fails with an *Error for a damaged PDF
// or one above the limits.
func (d *Document) Files() ([]File, error) {
	root, err := d.dictOf(d.trailer["Root"])
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, damaged("the PDF has no root")
	}
	w := walk{doc: d, seen: map[ref]bool{}, streams: map[ref]bool{}}
	names, err := d.dictOf(root["Names"])
	if err != nil {
		return nil, err
	}
	if tree := names["EmbeddedFiles"]; tree != nil {
		if err := w.tree(tree, d.limits.Depth); err != nil {
			return nil, err
		}
	}
	associated, err := d.arrayOf(root["AF"])
	if err != nil {
		return nil, err
	}
	for _, one := range associated {
		if err := w.specification("", one); err != nil {
			return nil, err
		}
	}
	return w.files, nil
}

// walk is a traversal of the name tree.
type walk struct {
	doc     *Document
	seen    map[ref]bool // visited nodes
	streams map[ref]bool // streams of the files found
	files   []File
}

// tree visits a node of the name tree: Names holds pairs of name and file specification, Kids holds
// child nodes (7.9.6). It fails with an Error of kind Damaged, or Limit for too deep nesting.
func (w *walk) tree(node any, depth int) error {
	if r, ok := node.(ref); ok {
		if w.seen[r] {
			return damaged("the names of the PDF go round in a circle")
		}
		w.seen[r] = true
	}
	if depth == 0 {
		return limited("the names of the PDF are nested too deeply")
	}
	here, err := w.doc.dictOf(node)
	if err != nil {
		return err
	}
	pairs, err := w.doc.arrayOf(here["Names"])
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, _ := pairs[i].(text)
		if err := w.specification(string(key), pairs[i+1]); err != nil {
			return err
		}
	}
	kids, err := w.doc.arrayOf(here["Kids"])
	if err != nil {
		return err
	}
	for _, kid := range kids {
		if err := w.tree(kid, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// specification adds the file of a file specification (7.11.3), unless its stream was already
// added. The key is its name in the tree. A value that specifies no embedded file is ignored; too
// many files fail with an Error of kind Limit.
func (w *walk) specification(key string, value any) error {
	about, err := w.doc.dictOf(value)
	if err != nil || about == nil {
		return err
	}
	embedded, err := w.doc.dictOf(about["EF"])
	if err != nil {
		return err
	}
	stream, ok := cmp.Or(embedded["UF"], embedded["F"]).(ref)
	if !ok || w.streams[stream] {
		return nil
	}
	w.streams[stream] = true
	if len(w.files) == w.doc.limits.Files {
		return limited("the PDF has more than %d embedded files", w.doc.limits.Files)
	}
	f := File{Name: key, doc: w.doc, stream: stream}
	for _, from := range []name{"F", "UF"} {
		named, err := w.doc.resolve(about[from])
		if err != nil {
			return err
		}
		if t, ok := named.(text); ok && t != "" {
			f.Name = string(t)
		}
	}
	relationship, err := w.doc.resolve(about["AFRelationship"])
	if err != nil {
		return err
	}
	kind, _ := relationship.(name)
	f.Relationship = string(kind)
	w.files = append(w.files, f)
	return nil
}

// Open returns a reader of the decompressed content of the file, which needs no closing. It reads
// from the reader that was passed to the package function Open. Opening or reading fails with an
// *Error if the content is damaged, missing or too large.
func (f *File) Open() (io.Reader, error) {
	value, body, err := f.doc.load(int64(f.stream))
	if err != nil {
		return nil, err
	}
	about, _ := value.(dict)
	if about == nil || body == 0 {
		return nil, damaged("an embedded file of the PDF is not there")
	}
	return f.doc.open(about, body, f.doc.limits.File)
}
