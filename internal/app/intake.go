package app

import (
	"context"
	"io"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/intake/ingest"
	"example.org/smartdrive/internal/intake/invoice"
)

// composeIntake constructs the intake of bundles.
func (a *App) composeIntake() {
	p := a.platform
	a.intake = ingest.New(ingest.Options{
		DB: p.db, Tree: a.tree, Store: p.storage.store, Events: a.events, Activity: a.activity, Content: p.content(), Instance: strconv.FormatInt(p.Generation, 10), Log: p.log,
	})
}

// nodeArrived passes new nodes to the intake. The tree is constructed before the intake, so it
// calls this method.
func (a *App) nodeArrived(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
	return a.intake.Arrived(ctx, tx, n)
}

// unfileTransferred removes, within tx, the references of the intake to files of an account, whose
// owner has changed by a handover. It processes up to limit rows after the key after and returns
// the key to continue from; empty: no more rows.
func (a *App) unfileTransferred(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, after string, limit int) (string, error) {
	return a.intake.Unfile(ctx, tx, account, after, limit)
}

// documents adapts the intake to export.Documents, for exports of a month.
type documents struct{ intake func() *ingest.Intake }

var _ export.Documents = documents{}

// Each calls fn with every document that the selection matches and stops at fn's error, which it
// returns. It fails with drive.BadRequest for an amount that is no number.
func (d documents) Each(ctx context.Context, account drive.AccountID, source, month string, of export.Selection, fn func(export.Document) error) error {
	f := ingest.Filter{
		Source: source, Month: month, Seller: of.Seller, Buyer: of.Buyer, Currency: of.Currency, Type: of.Type, State: of.State, Query: of.Query,
	}
	for _, bound := range []struct {
		text string
		to   *invoice.Decimal
	}{{of.Min, &f.Min}, {of.Max, &f.Max}} {
		if bound.text == "" {
			continue
		}
		var err error
		if *bound.to, err = invoice.ParseDecimal(bound.text); err != nil {
			return drive.Wrap(err, drive.BadRequest, "field", "of", "reason", string(drive.Malformed), "expected", "a number such as 100.50")
		}
	}
	return d.intake().Each(ctx, account, f, func(one ingest.Document) error {
		doc := export.Document{
			ID: one.ID.String(), Number: one.Number, Date: one.Date, Seller: one.Seller.Name, Source: one.Source, ReceivedAt: one.TakenIn(), Ext: one.Ext(),
			Embedded: one.EmbeddedPDF(),
		}
		if one.File != nil {
			doc.File = *one.File
		}
		if one.PDF != nil {
			doc.PDF = *one.PDF
		}
		return fn(doc)
	})
}

// PDFs returns the nodes of the documents' PDF files by document id. A document without one is
// absent.
func (d documents) PDFs(ctx context.Context, account drive.AccountID, ids []string) (map[string]drive.NodeID, error) {
	return d.intake().PDFs(ctx, account, ids)
}

// Embedded opens a PDF embedded in a document, by its SHA-256, and returns its size. The caller
// must close it. It fails with drive.NotFound.
func (d documents) Embedded(ctx context.Context, account drive.AccountID, id, sum string) (io.ReadCloser, drive.ByteSize, error) {
	document, err := drive.ParseID[drive.DocumentID](id)
	if err != nil {
		return nil, 0, err
	}
	a, err := ingest.EnclosedOf(d.intake()).Open(ctx, account, document, sum)
	if err != nil {
		return nil, 0, err
	}
	return a, a.Size, nil
}
