package activity

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Options configures New. DB is required; the zero value of each other field selects its default.
type Options struct {
	DB *sqldb.DB
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// RetentionClock is the clock that retention periods are measured with; see package retention.
	// Default: Now.
	RetentionClock func() time.Time
	// Keep is how long entries are kept. Default: 180 days.
	Keep time.Duration
	// Shared tells that other instances write entries, too.
	Shared bool
}

// Log is the activity log. It is safe for concurrent use. A nil Log records nothing.
type Log struct {
	opt Options
	hub hub

	scanLimit int          // see purgeScanLimit
	scanned   atomic.Int64 // position up to which the last Purge scanned; 0: it reached the end
}

const keepDefault = 180 * 24 * time.Hour // users ask who deleted something within half a year

// New returns a Log configured by opt.
func New(opt Options) *Log {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.RetentionClock == nil {
		opt.RetentionClock = opt.Now
	}
	if opt.Keep == 0 {
		opt.Keep = keepDefault
	}
	return &Log{opt: opt, scanLimit: purgeScanLimit}
}

// Entry is one recorded effect.
type Entry struct {
	ID      Position // assigned by the database
	Salt    int64    // assigned by Record; random
	Account drive.AccountID
	Seq     int64 // trees.seq of a change of a node; else 0
	At      drive.Time
	Verb    Verb
	By      drive.Who       // User, Session, Head and Address of the actor; zero: the actor of the transaction
	Node    drive.NodeID    // the node that changed; zero: none
	Folder  drive.NodeID    // the folder of the node
	Name    string          // of the node, or of what else the entry is about
	Data    json.RawMessage // a JSON object
}

// Position is the number of an entry, starting at 1.
type Position int64

const (
	insertEntry = `INSERT INTO activity (salt, account_id, seq, at, verb, user_id, session_id, head, address, node_id, folder_id, name, data)`

	maxName = 255       // bytes; a node's name fits
	maxData = 2 << 10   // bytes
	saltTop = 1<<31 - 1 // a salt has 8 hexadecimal digits
)

// Record records an entry in the transaction of its effect. data is encoded as a JSON object; nil:
// {}. The caller holds the lock on the ledger of the account (E2). It fails if data is too large.
func (l *Log) Record(tx *sqldb.Tx, e Entry, data any) error {
	if l == nil {
		return nil
	}
	e.Data = json.RawMessage("{}")
	if data != nil {
		var err error
		if e.Data, err = json.Marshal(data); err != nil {
			return fmt.Errorf("encode the data of %s: %w", e.Verb, err)
		}
	}
	if len(e.Data) > maxData {
		return fmt.Errorf("the data of %s has %d bytes, more than %d", e.Verb, len(e.Data), maxData)
	}
	l.insert(tx, e)
	return nil
}

// insert queues the row of an entry, to be inserted at the end of tx, and notifies watches of the
// account after the commit. The actor is that of tx unless e.By names one; a long name is cut to
// maxName bytes.
func (l *Log) insert(tx *sqldb.Tx, e Entry) {
	by := e.By
	if by.User.IsZero() && by.Head == "" {
		by = tx.Actor()
	}
	name := e.Name
	if len(name) > maxName {
		name = name[:maxName]
	}
	tx.InsertLate(insertEntry, []any{
		rand.Int64N(saltTop), e.Account, e.Seq, drive.TimeOf(l.opt.Now()), string(e.Verb), text(by.User), text(by.Session),
		by.Head, by.Address, text(e.Node), text(e.Folder), name, string(e.Data),
	})
	tx.AfterCommit(func() { l.hub.announce(e.Account) })
}

// text returns the text of an id; "" if it is zero.
func text[T interface {
	IsZero() bool
	String() string
}](id T) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// DeleteAccount deletes all entries of an account in transactions of purgeBatch rows. After an
// error or an interruption the earlier batches stay deleted; call it again to continue.
func (l *Log) DeleteAccount(ctx context.Context, account drive.AccountID) error {
	for n := int64(purgeBatch); n >= purgeBatch; {
		err := l.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, sqldb.Batch{
				Table: "activity", Key: "id", Where: "account_id = ?", Args: []any{account}, Limit: purgeBatch,
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("forget the activity of account %s: %w", account, err)
		}
	}
	return nil
}

const (
	purgeBatch     = 500     // rows per transaction, far below its limit of 50 ms
	purgeScanLimit = 100_000 // entries without an old one among them that one run reads
)

// Purge deletes entries older than Options.Keep. It scans a bounded part of the log per call and
// continues there next time.
func (l *Log) Purge(ctx context.Context) error {
	old := sqldb.Sweep{Table: "activity", Time: "at", Batch: purgeBatch, MaxExamined: l.scanLimit}
	_, upTo, err := old.Run(ctx, l.opt.DB, drive.TimeOf(l.opt.RetentionClock().Add(-l.opt.Keep)), l.scanned.Load())
	if err != nil {
		return fmt.Errorf("purge the activity log: %w", err)
	}
	l.scanned.Store(upTo)
	return nil
}
