package ingest

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Each calls fn for all documents of an account that match f, the newest date first, with
// EmbeddedPDF set. It reads page by page, so documents that are stored meanwhile may be missed. It
// stops at the first error of a query or of fn and returns it.
func (in *Intake) Each(ctx context.Context, account drive.AccountID, f Filter, fn func(Document) error) error {
	return in.library.each(ctx, account, f, fn)
}

// each calls fn with every document of the account that f selects, newest first, reading page by
// page. It stops at the first error of a query or of fn and returns it.
func (in *library) each(ctx context.Context, account drive.AccountID, f Filter, fn func(Document) error) error {
	for after := ""; ; {
		page, err := in.documents(ctx, drive.Who{Account: account}, f, after, folderPage)
		if err != nil {
			return err
		}
		if err := (Enclosed{in.core}).pictures(ctx, account, page); err != nil {
			return err
		}
		for _, d := range page {
			if err := fn(d); err != nil {
				return err
			}
			after = d.Place()
		}
		if len(page) < folderPage {
			return nil
		}
	}
}

// PDFs returns the PDFs of the documents with these ids, keyed by document id. A document is absent
// if it has no PDF, its PDF is deleted or in the trash, or it is unknown or of another account.
func (in *Intake) PDFs(ctx context.Context, account drive.AccountID, ids []string) (map[string]drive.NodeID, error) {
	return in.library.pdfs(ctx, account, ids)
}

// pdfs returns the nodes of the documents' PDF files by document id. Documents that are unknown or
// have no PDF are absent. It fails with the error of a query.
func (in *library) pdfs(ctx context.Context, account drive.AccountID, ids []string) (map[string]drive.NodeID, error) {
	pdfs := map[string]drive.NodeID{}
	for at := 0; at < len(ids); at += folderPage {
		page := ids[at:min(at+folderPage, len(ids))]
		args := []any{account}
		for _, id := range page {
			args = append(args, id)
		}
		rows, err := in.opt.DB.For(account).Query(ctx, selectDocuments+"WHERE account_id = ? AND id IN ("+sqldb.Placeholders(len(page))+")", args...)
		all, err := sqldb.Scan(rows, err, scanDocument)
		if err != nil {
			return nil, fmt.Errorf("find %d documents: %w", len(page), err)
		}
		if err := in.showFiles(ctx, account, all); err != nil {
			return nil, err
		}
		for _, d := range all {
			if d.PDF != nil {
				pdfs[d.ID.String()] = *d.PDF
			}
		}
	}
	return pdfs, nil
}
