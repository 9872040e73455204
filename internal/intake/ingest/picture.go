package ingest

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// picture is a PDF to set on a document, or on a side of a conflict, that was stored before the PDF
// arrived.
type picture struct {
	document drive.DocumentID
	hash     string       // content hash of the document, or of the conflict side, that the PDF belongs to
	had, pdf drive.NodeID // had: the PDF stored so far, which may be deleted; zero: none
}

// offer adds the PDF of an item to the plan, for the stored document id, or side of it, with the
// same content. had is the PDF that is stored there; if the item has none or the same, offer does
// nothing. It returns the PDF that later items of the batch must regard as stored.
//
// A late PDF reaches its document only this way (K7): the sender uploads the document again
// together with the PDF. File names do not identify a document across bundles, because two sellers
// may use one number, and files of the same name may arrive each month.
func (p *plan) offer(one item, id drive.DocumentID, had drive.NodeID) drive.NodeID {
	if one.doc.pdf.IsZero() || one.doc.pdf == had {
		return had
	}
	p.pictures = append(p.pictures, picture{id, one.doc.hash, had, one.doc.pdf})
	return one.doc.pdf
}

// givePictures sets the PDFs of documents and conflict sides whose stored PDF is missing, deleted
// or in the trash. A visible PDF is never replaced. The caller must hold the locks of the
// documents. An error fails the transaction.
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
