package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/export/fetch"
)

// Documents gives access to the documents that the intake received, such as invoices. All methods
// see only the given account.
type Documents interface {
	// Each calls fn for the documents of an account that match of. An empty source or month does
	// not filter; otherwise the document's source or date must match.
	Each(ctx context.Context, account drive.AccountID, source, month string, of Selection, fn func(Document) error) error
	// PDFs returns the current PDF of each document id. Documents without a PDF are absent.
	PDFs(ctx context.Context, account drive.AccountID, ids []string) (map[string]drive.NodeID, error)
	// Embedded opens the file with SHA-256 sum (hex) that is embedded in the original file of a
	// document, and returns its size. It returns NotFound if there is no such file.
	Embedded(ctx context.Context, account drive.AccountID, id, sum string) (io.ReadCloser, drive.ByteSize, error)
}

// Document is a document received by the intake.
type Document struct {
	ID         string
	Number     string
	Date       string // such as 2026-10-31
	Seller     string // the seller's name
	Source     string
	ReceivedAt drive.Time   // when the intake received it
	PDF        drive.NodeID // zero: no PDF
	File       drive.NodeID // the original file; zero: deleted
	Ext        string       // extension of File, such as ".xml"

	Embedded string // SHA-256 (hex) of a PDF embedded in File, if PDF is zero; empty: none
}

// embeddedScheme prefixes the internal URL of an embedded file: "embedded:DOCUMENT/SHA256". A
// client cannot use it in a manifest, because it has no host.
const embeddedScheme = "embedded:"

// embedded opens the file that address, a URL with embeddedScheme, names, as if it had been
// fetched; it is charged to the account. A missing or too large file is a *fetch.Error of the class
// Final. The caller must close the Document.
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
		return nil, r.classifyReadError(ctx, err)
	}
	if most := r.opt.Fetch.MaxSize; most > 0 && size > most {
		return nil, errors.Join(&fetch.Error{Class: fetch.Final, Reason: fetch.TooLarge}, in.Close())
	}
	return &fetch.Document{ReadCloser: embeddedBody{in, func(err error) error { return r.classifyReadError(ctx, err) }}, Size: size}, nil
}

// intakeFolder is the root folder of the intake; it has one folder per source.
const intakeFolder = "intake"

// addDocuments adds entries for the documents of the source that folder names, or of all sources
// for /intake. Any other folder is NotAllowed. A document without a PDF becomes an entry that
// fails, with a line in err.txt.
func (lb *listBuilder) addDocuments(ctx context.Context, folder drive.Path) error {
	if lb.opt.Documents == nil || len(folder) < 1 || len(folder) > 2 || folder[0] != intakeFolder {
		return drive.BadField("folder", drive.NotAllowed, "allowed", []string{"/" + intakeFolder, "/" + intakeFolder + "/SOURCE"}, "sent", folder.String())
	}
	source := ""
	if len(folder) == 2 {
		source = string(folder[1])
	}
	after := lb.since.At.Add(-lateDocuments)
	return lb.opt.Documents.Each(ctx, lb.account, source, lb.match.month, lb.match.selection, func(d Document) error {
		if !lb.match.matchesDay(d.Date) || lb.since.At != 0 && d.ReceivedAt < after {
			return nil
		}
		return lb.addDocument(d)
	})
}

// addDocument adds an entry for the PDF of a document, stored or embedded, and another one for its
// original file if the filter asks for XML. For a document without a PDF it adds an entry that
// fails when it is collected. It returns TooLarge as add does.
func (lb *listBuilder) addDocument(d Document) error {
	where, name := strings.TrimSpace(d.Date+" "+replaceSlashes(d.Number)), lb.naming.documentName(d)
	if name == "" {
		name = d.ID
	}
	pdf := listEntry{Doc: d.ID, Node: d.PDF, Path: where, Name: name + ".pdf"}
	switch {
	case d.Embedded != "":
		pdf.URL = embeddedScheme + d.ID + "/" + d.Embedded
	case d.PDF.IsZero():
		pdf.Path += noPDF
	}
	if err := lb.add(pdf); err != nil || !lb.match.xml || d.File.IsZero() {
		return err
	}
	return lb.add(listEntry{Doc: d.ID, Node: d.File, Path: where + d.Ext, Name: name + d.Ext})
}

// noPDF is the suffix of the path in err.txt for a document without a PDF.
const noPDF = " has no PDF"

// fillLatePDFs changes failed entries of a previous batch in page: if the document of the entry has
// received a PDF since, the entry becomes that PDF.
func (c *creator) fillLatePDFs(ctx context.Context, b batch, page []previousEntry) error {
	if c.opt.Documents == nil {
		return nil
	}
	var ids []string
	for _, l := range page {
		if l.failed != 0 && l.w.Doc != "" {
			ids = append(ids, l.w.Doc)
		}
	}
	pdfs, err := c.opt.Documents.PDFs(ctx, b.Account, ids)
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

// isOfDocuments reports whether the list of the batch's root was made from documents of the intake.
// It returns false, without an error, if the root was deleted.
func (c *creator) isOfDocuments(ctx context.Context, b batch) (bool, error) {
	if b.Root != b.ID {
		var err error
		if b, err = c.find(ctx, c.opt.DB, "WHERE id = ?", b.Root); drive.IsKind(err, drive.NotFound) {
			return false, nil // the root was deleted
		} else if err != nil {
			return false, err
		}
	}
	a, err := b.storedRequest()
	return a.Filter.Documents, err
}
