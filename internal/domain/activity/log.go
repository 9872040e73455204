package activity

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Options configure New. DB is required; the zero value of each other field is its default.
type Options struct {
	DB *sqldb.DB
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Kept is the clock that says how long something was kept; see package retention. Default: Now.
	Kept func() time.Time
	// Keep is how long entries are kept. Default: 180 days.
	Keep time.Duration
	// Shared says that other instances write entries, too.
	Shared bool
}

// Log is the activity log. It is safe for concurrent use. A nil Log notes nothing.
type Log struct {
	opt Options
	hub hub

	look   int          // see purgeLook
	looked atomic.Int64 // the position up to which the last Purge looked; 0: it came to the end
}

const keepDefault = 180 * 24 * time.Hour // half a year, within which people ask who has deleted something

// New returns a Log.
func New(opt Options) *Log {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Kept == nil {
		opt.Kept = opt.Now
	}
	if opt.Keep == 0 {
		opt.Keep = keepDefault
	}
	return &Log{opt: opt, look: purgeLook}
}

// Entry is one effect.
type Entry struct {
	ID      Position // given by the database
	Salt    int64    // given by Note
	Account drive.AccountID
	Seq     int64 // trees.seq of a change of a node
	At      drive.Time
	Verb    Verb
	By      drive.Who // of it User, Session, Head and Address; zero: of whoever the transaction is for
	Node    drive.NodeID
	Folder  drive.NodeID
	Name    string
	Data    json.RawMessage // an object
}

// Position is the number of an entry, from 1 on.
type Position int64

const (
	insert = `INSERT INTO activity (salt, account_id, seq, at, verb, user_id, session_id, head, address, node_id, folder_id, name, data)`

	maxName = 255       // bytes; a node's fits
	maxData = 2 << 10   // bytes
	saltTop = 1<<31 - 1 // a salt fits into 8 hexadecimal digits
)

// Note writes an entry in the transaction of its effect. data is an object that becomes JSON; nil:
// there is nothing to say. The caller holds the lock on the ledger of the account (E2).
func (l *Log) Note(tx *sqldb.Tx, e Entry, data any) error {
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
	l.note(tx, e)
	return nil
}

func (l *Log) note(tx *sqldb.Tx, e Entry) {
	by := e.By
	if by.User.IsZero() && by.Head == "" {
		by = tx.Actor()
	}
	name := e.Name
	if len(name) > maxName {
		name = name[:maxName]
	}
	tx.InsertLate(insert, []any{
		rand.Int64N(saltTop), e.Account, e.Seq, drive.TimeOf(l.opt.Now()), string(e.Verb), text(by.User), text(by.Session),
		by.Head, by.Address, text(e.Node), text(e.Folder), name, string(e.Data),
	})
	tx.AfterCommit(func() { l.hub.announce(e.Account) })
}

// text is the form of an id in a column that may be empty.
func text[T interface {
	IsZero() bool
	String() string
}](id T) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// Forget deletes what there is of an account, in short transactions.
func (l *Log) Forget(ctx context.Context, account drive.AccountID) error {
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
	purgeBatch = 500     // rows of one transaction: far below its budget of 50 ms
	purgeLook  = 100_000 // entries with nothing old among them that a run reads: a bounded part of any log
)

// Purge deletes entries that were kept long enough.
func (l *Log) Purge(ctx context.Context) error {
	old := sqldb.Sweep{Table: "activity", Time: "at", Batch: purgeBatch, Look: l.look}
	_, upTo, err := old.Run(ctx, l.opt.DB, drive.TimeOf(l.opt.Kept().Add(-l.opt.Keep)), l.looked.Load())
	if err != nil {
		return fmt.Errorf("purge the activity log: %w", err)
	}
	l.looked.Store(upTo)
	return nil
}
