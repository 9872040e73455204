package ingest

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

// taken is the data of the records about documents: what a consumer needs to know whether it cares.
// The document itself is read by its id.
type taken struct {
	Document drive.DocumentID `json:"document"`
	Bundle   drive.BundleID   `json:"bundle"` // that it, or what contradicts it, came in
	Source   string           `json:"source"`
	Type     string           `json:"type"`
	Number   string           `json:"number"`
	Date     string           `json:"date,omitempty"`
}

// publish tells of the documents that a batch inserts, and of those that are in conflict now, in
// the transaction that makes them so. A bundle that starts again inserts nothing a second time, so
// it tells of nothing a second time.
func (r *run) publish(ctx context.Context, tx *sqldb.Tx, p *plan) error {
	if r.opt.Events == nil {
		return nil
	}
	records := make([]stream.Record, 0, len(p.fresh)+len(p.sides))
	add := func(typ stream.Type, items []item) error {
		for _, one := range items {
			record, err := stream.New(stream.TopicDocuments, typ, r.b.Account, one.document.String(), taken{
				one.document, r.b.ID, r.b.Source, one.doc.typ, one.doc.number, one.doc.dated,
			})
			if err != nil {
				return err
			}
			records = append(records, record)
		}
		return nil
	}
	if err := add(stream.DocumentAccepted, p.fresh); err != nil {
		return err
	}
	if err := add(stream.DocumentConflict, p.sides); err != nil {
		return err
	}
	return r.opt.Events.Append(ctx, tx, records...)
}
