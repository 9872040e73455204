package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/export/fetch"
)

// Documents are those that were taken in, as a batch of a month needs them.
type Documents interface {
	// Each tells of the documents of an account, perhaps only of a source, that have a date in a
	// month (empty: any) and are of a selection.
	Each(ctx context.Context, account drive.AccountID, source, month string, of Selection, fn func(Document) error) error
	// PDFs returns those that documents of an account have now, by their ids.
	PDFs(ctx context.Context, account drive.AccountID, ids []string) (map[string]drive.NodeID, error)
	// Embedded opens the file with a SHA-256 within the one that a document was read from.
	// NotFound: it is not there.
	Embedded(ctx context.Context, account drive.AccountID, id, sum string) (io.ReadCloser, drive.ByteSize, error)
}

// Document is one of them.
type Document struct {
	ID     string
	Number string
	Date   string // 2026-10-31
	Seller string // its name
	Source string
	Taken  drive.Time   // when it was taken in
	PDF    drive.NodeID // zero: it has none
	File   drive.NodeID // that it was read from; zero: it is gone
	Ext    string       // of that file: ".xml"

	Embedded string // the SHA-256 of a PDF within that file, if it has no other; empty: none
}

// embeddedScheme begins the address of a file within that of a document: its id, and the SHA-256 of
// the file. No list of a user's can have it: it names no host.
const embeddedScheme = "embedded:"

// embedded opens a file within that of a document, as one that is fetched. What it takes is charged
// as that is.
func (r *run) embedded(ctx context.Context, address string) (*fetch.Document, error) {
	id, sum, _ := strings.Cut(strings.TrimPrefix(address, embeddedScheme), "/")
	if r.opt.Documents == nil {
		return nil, &fetch.Error{Class: fetch.Final, Reason: reasonMissing}
	}
	in, size, err := r.opt.Documents.Embedded(ctx, r.b.Account, id, sum)
	if drive.IsKind(err, drive.NotFound) {
		return nil, &fetch.Error{Class: fetch.Final, Reason: reasonMissing, Err: errors.New("the file that it was embedded in is gone")}
	}
	if err != nil {
		return nil, r.unread(ctx, err)
	}
	if most := r.opt.Fetch.MaxSize; most > 0 && size > most {
		return nil, errors.Join(&fetch.Error{Class: fetch.Final, Reason: fetch.TooLarge}, in.Close())
	}
	return &fetch.Document{ReadCloser: embeddedBody{in, func(err error) error { return r.unread(ctx, err) }}, Size: size}, nil
}

// intakeFolder holds a folder for each source.
const intakeFolder = "intake"

// documents adds the PDFs of documents of a source, or of all of them. One without a PDF is an
// entry that will be missing: its line of err.txt names it.
func (w *walk) documents(ctx context.Context, folder drive.Path) error {
	if w.opt.Documents == nil || len(folder) < 1 || len(folder) > 2 || folder[0] != intakeFolder {
		return drive.Bad("folder", drive.NotAllowed, "allowed", []string{"/" + intakeFolder, "/" + intakeFolder + "/SOURCE"}, "sent", folder.String())
	}
	source := ""
	if len(folder) == 2 {
		source = string(folder[1])
	}
	after := w.since.At.Add(-lateDocuments)
	return w.opt.Documents.Each(ctx, w.account, source, w.match.month, w.match.of, func(d Document) error {
		if !w.match.hasDay(d.Date) || w.since.At != 0 && d.Taken < after {
			return nil
		}
		return w.document(d)
	})
}

// document adds the PDF of a document, and beside it the file that it was read from if that is
// wanted.
func (w *walk) document(d Document) error {
	where, name := strings.TrimSpace(d.Date+" "+flat(d.Number)), w.naming.ofDocument(d)
	if name == "" {
		name = d.ID
	}
	pdf := want{Doc: d.ID, Node: d.PDF, Path: where, Name: name + ".pdf"}
	switch {
	case d.Embedded != "":
		pdf.URL = embeddedScheme + d.ID + "/" + d.Embedded
	case d.PDF.IsZero():
		pdf.Path += noPDF
	}
	if err := w.add(pdf); err != nil || !w.match.xml || d.File.IsZero() {
		return err
	}
	return w.add(want{Doc: d.ID, Node: d.File, Path: where + d.Ext, Name: name + d.Ext})
}

// noPDF ends the line of a document without a PDF.
const noPDF = " has no PDF"

// late finds the PDFs that documents which a batch misses have got since. It changes the page of
// its list.
func (o *orders) late(ctx context.Context, b batch, page []listed) error {
	if o.opt.Documents == nil {
		return nil
	}
	var ids []string
	for _, l := range page {
		if l.failed != 0 && l.w.Doc != "" {
			ids = append(ids, l.w.Doc)
		}
	}
	pdfs, err := o.opt.Documents.PDFs(ctx, b.Account, ids)
	if err != nil {
		return fmt.Errorf("look for PDFs of %d documents: %w", len(ids), err)
	}
	for i := range page {
		w := &page[i].w
		if pdf, ok := pdfs[w.Doc]; ok && page[i].failed != 0 && strings.HasSuffix(w.Name, ".pdf") {
			w.Node, w.URL, w.Path = pdf, "", strings.TrimSuffix(w.Path, noPDF)
		}
	}
	return nil
}

// ofDocuments reports whether the list of a batch, or of what it supplements, was made of documents
// that were taken in.
func (o *orders) ofDocuments(ctx context.Context, b batch) (bool, error) {
	if b.Root != b.ID {
		var err error
		if b, err = o.find(ctx, o.opt.DB, "WHERE id = ?", b.Root); drive.IsKind(err, drive.NotFound) {
			return false, nil // it was deleted
		} else if err != nil {
			return false, err
		}
	}
	a, err := b.asked()
	return a.Filter.Documents, err
}
