package app

import (
	"context"

	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/stream/outbox"
)

// chronicle publishes records, and writes into the activity log what of them the people of an
// account may want to know.
type chronicle struct {
	outbox *outbox.Outbox
	log    *activity.Log
	ledger quota.Ledger
}

var _ stream.Publisher = chronicle{}

// Append implements stream.Publisher. The log wants its rows in the order in which the account's
// transactions commit (E2): those about uploads hold the lock on the ledger already.
func (n chronicle) Append(ctx context.Context, tx *sqldb.Tx, records ...stream.Record) error {
	for i, r := range records {
		verb := activity.Verb(r.Type)
		if !verb.Known() || r.Key.IsZero() {
			continue
		}
		if i == 0 && r.Topic != stream.TopicUploads {
			if err := n.ledger.Lock(ctx, tx, r.Key); err != nil {
				return err
			}
		}
		var data any = r.Data
		if len(r.Data) == 0 {
			data = map[string]string{"subject": r.Subject}
		}
		if err := n.log.Note(tx, activity.Entry{Account: r.Key, Verb: verb}, data); err != nil {
			return err
		}
	}
	return n.outbox.Append(ctx, tx, records...)
}
