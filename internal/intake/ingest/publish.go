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

// refused is the data of the record about documents that were not accepted.
type refused struct {
	Bundle drive.BundleID `json:"bundle"`
	Source string         `json:"source"`
	Place  string         `json:"place"` // in the bundle
	Reason string         `json:"reason"`
	Number string         `json:"number,omitempty"`
	Count  int64          `json:"count"` // documents that it stands for
}

// publish tells of the documents that a batch inserts, of those that are in conflict now, and of
// those that are rejected, in the transaction that makes them so. A bundle that starts again
// inserts nothing a second time, so it tells of no document a second time; of what it rejects it
// does.
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

func (in *ground) tellRefused(b *row, one item) (stream.Record, error) {
	return stream.New(stream.TopicDocuments, stream.DocumentRejected, b.Account, b.ID.String(), refused{
		b.ID, b.Source, place(pos{one.member, one.index}), one.reason, one.number, one.counts,
	})
}
