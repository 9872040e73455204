package app

import (
	"context"
	"io"
	"strconv"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/export"
	"smartdrive/internal/intake/ingest"
	"smartdrive/internal/intake/invoice"
)

// composeIntake makes the intake of bundles.
func (a *App) composeIntake() {
	g := a.ground
	a.intake = ingest.New(ingest.Options{
		DB: g.db, Tree: a.tree, Store: g.bytes.store, Events: a.events, Activity: a.activity, Content: g.content(), Instance: strconv.FormatInt(g.Generation, 10), Log: g.log,
	})
}

// arrived hands on what the tree tells, which is made before those that it tells.
func (a *App) arrived(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
	return a.intake.Arrived(ctx, tx, n)
}

// handed tells the intake whose files went to somebody else.
func (a *App) handed(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, after string, limit int) (string, error) {
	return a.intake.Unfile(ctx, tx, account, after, limit)
}

// documents are what exports of a month are made of.
type documents struct{ intake func() *ingest.Intake }

var _ export.Documents = documents{}

// Each implements export.Documents.
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
			ID: one.ID.String(), Number: one.Number, Date: one.Date, Seller: one.Seller.Name, Source: one.Source, Taken: one.TakenIn(), Ext: one.Ext(),
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

// PDFs implements export.Documents.
func (d documents) PDFs(ctx context.Context, account drive.AccountID, ids []string) (map[string]drive.NodeID, error) {
	return d.intake().PDFs(ctx, account, ids)
}

// Embedded implements export.Documents.
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
