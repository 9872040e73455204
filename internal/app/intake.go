package app

import (
	"context"
	"strconv"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/export"
	"smartdrive/internal/intake/ingest"
)

// composeIntake makes the intake of bundles.
func (a *App) composeIntake() {
	a.intake = ingest.New(ingest.Options{
		DB: a.db, Tree: a.tree, Store: a.bytes.store, Events: a.outbox, Content: a.content(), Instance: strconv.FormatInt(a.Generation, 10), Log: a.log,
	})
}

// arrived hands on what the tree tells, which is made before those that it tells.
func (a *App) arrived(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
	return a.intake.Arrived(ctx, tx, n)
}

// observeIntake shows what this instance has taken in.
func (a *App) observeIntake() {
	m, s := a.metrics, a.intake.Stats()
	counts(m, "bundles_done_total", "Bundles of documents that were taken in.", &s.Done)
	counts(m, "bundles_rejected_total", "Bundles that were rejected as a whole.", &s.Rejected)
	counts(m, "bundles_retried_total", "Times a bundle was put off because of an error.", &s.Retried)
	counts(m, "bundles_found_total", "Bundles that the reconciler found and nobody had told of.", &s.Found)
	counts(m, "documents_accepted_total", "Documents of bundles that were accepted.", &s.Accepted)
	counts(m, "documents_rejected_total", "Documents of bundles that were rejected, those of rejected bundles apart.", &s.Refused)
	counts(m, "documents_duplicate_total", "Documents that were there already.", &s.Double)
	counts(m, "documents_conflict_total", "Documents that contradict one that was there.", &s.Torn)
}

// documents are what exports of a month are made of.
type documents struct{ a *App }

var _ export.Documents = documents{}

// Each implements export.Documents.
func (d documents) Each(ctx context.Context, account drive.AccountID, source, month string, fn func(export.Document) error) error {
	return d.a.intake.Each(ctx, account, ingest.Filter{Source: source, Month: month}, func(one ingest.Document) error {
		doc := export.Document{ID: one.ID.String(), Number: one.Number, Date: one.Date}
		if one.PDF != nil {
			doc.PDF = *one.PDF
		}
		return fn(doc)
	})
}

// PDFs implements export.Documents.
func (d documents) PDFs(ctx context.Context, account drive.AccountID, ids []string) (map[string]drive.NodeID, error) {
	return d.a.intake.PDFs(ctx, account, ids)
}
