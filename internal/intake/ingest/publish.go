package ingest

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// documentPayload is the payload of the events DocumentAccepted and DocumentConflict: enough for a
// consumer to decide whether to read the document by its id.
type documentPayload struct {
	Document drive.DocumentID `json:"document"`
	Bundle   drive.BundleID   `json:"bundle"` // bundle of the accepted document, or of the contradicting one
	Source   string           `json:"source"`
	Type     string           `json:"type"`
	Number   string           `json:"number"`
	Date     string           `json:"date,omitempty"`
}

// refused is the payload of the event DocumentRejected.
type refused struct {
	Bundle drive.BundleID `json:"bundle"`
	Source string         `json:"source"`
	Place  string         `json:"place"` // position of the document in the bundle, as BundleRecord.Place
	Reason string         `json:"reason"`
	Number string         `json:"number,omitempty"`
	Count  int64          `json:"count"` // number of documents that the event stands for
}

// publish appends the events of a batch within tx: for documents that are inserted, new conflicts,
// and rejected documents. If a bundle is processed again, accepted documents are not inserted again
// and cause no second event; rejected documents do. Without Options.Events it does nothing. After
// an error tx must be rolled back.
func (r *run) publish(ctx context.Context, tx *sqldb.Tx, p *plan) error {
	if r.opt.Events == nil {
		return nil
	}
	records := make([]stream.Record, 0, len(p.fresh)+len(p.sides))
	add := func(typ stream.Type, items []item) error {
		for _, one := range items {
			record, err := stream.New(stream.TopicDocuments, typ, r.b.Account, one.document.String(), documentPayload{
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
	for _, one := range p.items {
		if one.outcome != Reject || one.surplus {
			continue
		}
		record, err := r.tellRefused(r.b, one)
		if err != nil {
			return err
		}
		records = append(records, record)
	}
	return r.opt.Events.Append(ctx, tx, records...)
}

// tellRefused returns the event DocumentRejected for an item of a bundle. It publishes nothing; the
// caller appends it within its transaction.
func (in *core) tellRefused(b *row, one item) (stream.Record, error) {
	return stream.New(stream.TopicDocuments, stream.DocumentRejected, b.Account, b.ID.String(), refused{
		b.ID, b.Source, place(pos{one.member, one.index}), one.reason, one.number, one.counts,
	})
}
