package bulk

import (
	"context"
	"encoding/json"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// outcome tells what became of an item. The numbers are stored: they must not change.
type outcome int

const (
	// pending: not processed yet; the zero outcome.
	pending outcome = 0
	// changed: the item was changed, and undo can revert it.
	changed   outcome = 1
	unchanged outcome = 2 // the item already was in the wanted state
	// refused: the item failed, with a problem code.
	refused outcome = 3
	// idLength is the length in bytes of an id in a packed list.
	idLength = 16
)

// entry is the record of one item, stored as JSON without zero fields; most items take about 30
// bytes.
type entry struct {
	Outcome outcome `json:"s,omitempty"`
	Code    string  `json:"e,omitempty"` // problem code of a refused item

	Trashed  drive.Time   `json:"t,omitempty"` // trash: when, as stored in the node's row
	Parent   drive.NodeID `json:"p,omitzero"`  // move: its earlier folder
	Name     drive.Name   `json:"n,omitempty"` // move: its earlier name
	Became   drive.Name   `json:"b,omitempty"` // move: its new name, if changed
	Made     drive.NodeID `json:"m,omitzero"`  // copy: the new node
	Replaced drive.NodeID `json:"r,omitzero"`  // move: the node that it replaced, now in the trash

	Want *condition `json:"w,omitempty"` // undo, delete: precondition and target
}

// condition is the state that an item must have to be changed, and for an undo the state to
// restore.
type condition struct {
	Trashed drive.Time   `json:"t,omitempty"` // restore, delete: time at which it was trashed
	From    drive.NodeID `json:"f,omitzero"`  // move: expected folder
	As      drive.Name   `json:"a,omitempty"` // move: expected name
	Parent  drive.NodeID `json:"p,omitzero"`  // move: folder to return to
	Name    drive.Name   `json:"n,omitempty"` // move: name to return to
	Back    drive.NodeID `json:"b,omitzero"`  // move: node to restore from the trash afterwards
}

// piece is a row of bulk_items: consecutive items of an operation, and what became of each.
type piece struct {
	n       int64
	ids     []drive.NodeID // node ids or share ids
	entries []entry
}

// newPiece returns piece n of these items, each of which is pending.
func newPiece(n int64, ids []drive.NodeID) piece {
	return piece{n: n, ids: ids, entries: make([]entry, len(ids))}
}

// unsettled returns the number of waiting and refused items, and the number of refused ones.
func (p piece) unsettled() (all, failed int64) {
	for _, e := range p.entries {
		switch e.Outcome {
		case pending:
			all++
		case refused:
			all, failed = all+1, failed+1
		case changed, unchanged:
		}
	}
	return all, failed
}

// packIDs encodes ids for the column items.
func packIDs(ids []drive.NodeID) []byte {
	b := make([]byte, 0, idLength*len(ids))
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

// record returns the entries as the JSON of the row; empty if all are zero.
func (p piece) record() ([]byte, error) {
	for _, e := range p.entries {
		if e != (entry{}) {
			return json.Marshal(p.entries)
		}
	}
	return []byte{}, nil
}

// selectPieces selects the columns of a piece; a WHERE clause follows.
const selectPieces = "SELECT n, items, record FROM bulk_items "

// scanPiece reads a row of selectPieces. It fails if the record does not match the ids.
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

// next returns the first piece with n >= from that has pending or refused items; false, without an
// error, if there is none.
func (b *Bulk) next(ctx context.Context, q sqldb.Querier, id drive.OperationID, from int64) (piece, bool, error) {
	rows, err := q.Query(ctx, selectPieces+"WHERE bulk_id = ? AND n >= ? AND unsettled > 0 ORDER BY n LIMIT 1", id, from)
	found, err := sqldb.Scan(rows, err, scanPiece)
	if err != nil || len(found) == 0 {
		return piece{}, false, err
	}
	return found[0], true, nil
}

// insertPiece inserts a new piece of operation r within tx, with the numbers of its unsettled and
// failed items.
func (b *Bulk) insertPiece(ctx context.Context, tx *sqldb.Tx, r row, p piece) error {
	record, err := p.record()
	if err != nil {
		return err
	}
	all, failed := p.unsettled()
	_, err = tx.Exec(ctx, "INSERT INTO bulk_items (bulk_id, n, account_id, items, record, unsettled, failed) VALUES ("+sqldb.Placeholders(7)+")",
		r.id, p.n, r.account, packIDs(p.ids), record, all, failed)
	return err
}

// savePiece updates the record of a piece, and the numbers of its unsettled and failed items,
// within tx. A missing row is no error.
func (b *Bulk) savePiece(ctx context.Context, tx *sqldb.Tx, id drive.OperationID, p piece) error {
	record, err := p.record()
	if err != nil {
		return err
	}
	all, failed := p.unsettled()
	_, err = tx.Exec(ctx, "UPDATE bulk_items SET record = ?, unsettled = ?, failed = ? WHERE bulk_id = ? AND n = ?", record, all, failed, id, p.n)
	return err
}
