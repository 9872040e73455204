package app

import (
	"context"

	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/outbox"
)

// activityPublisher publishes records and copies those that users may see to the activity log.
type activityPublisher struct {
	outbox *outbox.Outbox
	log    *activity.Log
	ledger quota.Ledger
}

var _ stream.Publisher = activityPublisher{}

// Append writes the records to the activity log and the outbox within tx. The activity log needs
// its rows in the order in which the account's transactions commit (E2), so Append locks the ledger
// first; transactions about uploads hold that lock already. An error fails the transaction.
func (p activityPublisher) Append(ctx context.Context, tx *sqldb.Tx, records ...stream.Record) error {
	for i, r := range records {
		verb := activity.Verb(r.Type)
		if !verb.Known() || r.Key.IsZero() {
			continue
		}
		if i == 0 && r.Topic != stream.TopicUploads {
			if err := p.ledger.Lock(ctx, tx, r.Key); err != nil {
				return err
			}
		}
		var data any = r.Data
		if len(r.Data) == 0 {
			data = map[string]string{"subject": r.Subject}
		}
		if err := p.log.Record(tx, activity.Entry{Account: r.Key, Verb: verb}, data); err != nil {
			return err
		}
	}
	return p.outbox.Append(ctx, tx, records...)
}
