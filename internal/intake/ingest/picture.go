package ingest

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// picture is a PDF that has come with a document which was there already.
type picture struct {
	document drive.DocumentID
	hash     string       // of the document, or of the side of its conflicts, that it belongs to
	had, pdf drive.NodeID // had: the PDF that it has, which may be deleted; zero: none
}

// offer notes the PDF of an item that says the same as a document, or a side, which has another one
// or none. It returns what that has then, as far as the rest of the batch is concerned.
//
// This is how a PDF that is late comes to its document (K7): names alone do not say across bundles
// which document a PDF is of, for two sellers may use one number, and files of one name may come
// each month. A document that comes again together with its PDF says it.
func (p *plan) offer(one item, id drive.DocumentID, had drive.NodeID) drive.NodeID {
	if one.doc.pdf.IsZero() || one.doc.pdf == had {
		return had
	}
	p.pictures = append(p.pictures, picture{id, one.doc.hash, had, one.doc.pdf})
	return one.doc.pdf
}

// givePictures gives PDFs to documents and sides that have none which can be seen. So the first
// that came stays, whatever follows it. The documents are locked.
func (r *run) givePictures(ctx context.Context, tx *sqldb.Tx, all []picture, now drive.Time) error {
	had := make([]drive.NodeID, 0, len(all))
	for _, one := range all {
		if !one.had.IsZero() {
			had = append(had, one.had)
		}
	}
	nodes, err := r.opt.Tree.FindMany(ctx, tx, r.b.Account, had...)
	if err != nil {
		return err
	}
	for _, one := range all {
		if n, ok := nodes[one.had]; ok && n.Trashed == 0 {
			continue
		}
		n, err := tx.Exec(ctx, "UPDATE documents SET pdf_id = ?, updated_at = ? WHERE id = ? AND hash = ?", one.pdf, now, one.document, one.hash)
		if err == nil && n == 0 {
			_, err = tx.Exec(ctx, "UPDATE document_conflicts SET pdf_id = ? WHERE document_id = ? AND hash = ?", one.pdf, one.document, one.hash)
		}
		if err != nil {
			return fmt.Errorf("give a PDF to document %s: %w", one.document, err)
		}
	}
	return nil
}
