package bulk

import (
	"context"
	"encoding/json"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// outcome is what became of an item. The numbers are stored.
type outcome int

const (
	waiting  outcome = 0
	changed  outcome = 1
	asItWas  outcome = 2 // it was in the state that is wanted already
	refused  outcome = 3
	idLength         = 16
)

// entry is what the record of a piece says of an item. It is stored as JSON, in which what is zero
// is left out: most items take some 30 bytes.
type entry struct {
	Outcome outcome `json:"s,omitempty"`
	Code    string  `json:"e,omitempty"` // the problem's, of one that was refused

	Trashed  drive.Time   `json:"t,omitempty"` // trash: when, as its row says
	Parent   drive.NodeID `json:"p,omitzero"`  // move: where it was
	Name     drive.Name   `json:"n,omitempty"` // move: its name there
	Became   drive.Name   `json:"b,omitempty"` // move: its name now, if it is another one
	Made     drive.NodeID `json:"m,omitzero"`  // copy: the copy
	Replaced drive.NodeID `json:"r,omitzero"`  // move: what made room for it and lies in the trash

	Want *want `json:"w,omitempty"` // of an undo, and of delete
}

// want is the state that an item must have to be changed, and what an undo makes of it.
type want struct {
	Trashed drive.Time   `json:"t,omitempty"` // restore, delete: when it was put into the trash
	From    drive.NodeID `json:"f,omitzero"`  // move: it is there
	As      drive.Name   `json:"a,omitempty"` // move: under this name
	Parent  drive.NodeID `json:"p,omitzero"`  // move: to there
	Name    drive.Name   `json:"n,omitempty"` // move: under that name
	Back    drive.NodeID `json:"b,omitzero"`  // move: this comes back from the trash then
}

// piece is a row of bulk_items.
type piece struct {
	n       int64
	ids     []drive.NodeID // of shares, too
	entries []entry
}

func newPiece(n int64, ids []drive.NodeID) piece {
	return piece{n: n, ids: ids, entries: make([]entry, len(ids))}
}

// unsettled counts the items that wait or were refused, and the latter alone.
func (p piece) unsettled() (all, failed int64) {
	for _, e := range p.entries {
		switch e.Outcome {
		case waiting:
			all++
		case refused:
			all, failed = all+1, failed+1
		case changed, asItWas:
		}
	}
	return all, failed
}

func packIDs(ids []drive.NodeID) []byte {
	b := make([]byte, 0, idLength*len(ids))
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

// record is the JSON of the entries; empty while nothing is known of any.
func (p piece) record() ([]byte, error) {
	for _, e := range p.entries {
		if e != (entry{}) {
			return json.Marshal(p.entries)
		}
	}
	return []byte{}, nil
}

const selectPieces = "SELECT n, items, record FROM bulk_items "

func scanPiece(p *piece, scan func(...any) error) error {
	var items, record []byte
	if err := scan(&p.n, &items, &record); err != nil {
		return err
	}
	for ; len(items) >= idLength; items = items[idLength:] {
		p.ids = append(p.ids, drive.NodeID(items[:idLength]))
	}
	p.entries = make([]entry, len(p.ids))
	if len(record) == 0 {
		return nil
	}
	if err := json.Unmarshal(record, &p.entries); err != nil || len(p.entries) != len(p.ids) {
		return fmt.Errorf("the record of piece %d is damaged: %d entries of %d items, %w", p.n, len(p.entries), len(p.ids), err)
	}
	return nil
}

// next returns the first piece at or after a number in which something waits or failed.
func (b *Bulk) next(ctx context.Context, q sqldb.Querier, id drive.OperationID, from int64) (piece, bool, error) {
	rows, err := q.Query(ctx, selectPieces+"WHERE bulk_id = ? AND n >= ? AND unsettled > 0 ORDER BY n LIMIT 1", id, from)
	found, err := sqldb.Scan(rows, err, scanPiece)
	if err != nil || len(found) == 0 {
		return piece{}, false, err
	}
	return found[0], true, nil
}

func (b *Bulk) insertPiece(ctx context.Context, tx *sqldb.Tx, r row, p piece) error {
	record, err := p.record()
	if err != nil {
		return err
	}
	all, failed := p.unsettled()
	_, err = tx.Exec(ctx, "INSERT INTO bulk_items (bulk_id, n, account_id, items, record, unsettled, failed) VALUES ("+sqldb.Marks(7)+")",
		r.id, p.n, r.account, packIDs(p.ids), record, all, failed)
	return err
}

func (b *Bulk) savePiece(ctx context.Context, tx *sqldb.Tx, id drive.OperationID, p piece) error {
	record, err := p.record()
	if err != nil {
		return err
	}
	all, failed := p.unsettled()
	_, err = tx.Exec(ctx, "UPDATE bulk_items SET record = ?, unsettled = ?, failed = ? WHERE bulk_id = ? AND n = ?", record, all, failed, id, p.n)
	return err
}
