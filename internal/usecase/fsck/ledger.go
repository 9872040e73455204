package fsck

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
)

// balances says what each column of a ledger is the sum of.
var balances = []struct{ invariant, column, sum string }{
	{"Q1", "finished", `SELECT (SELECT COALESCE(SUM(size), 0) FROM versions WHERE account_id = l.account_id)
		+ (SELECT COALESCE(SUM(charged), 0) FROM export_pins WHERE account_id = l.account_id)`},
	{"Q2", "reserved", `SELECT COALESCE(SUM(reserved), 0) FROM uploads WHERE account_id = l.account_id AND state IN ('active', 'sealing')`},
	{"Q3", "unfinished", `SELECT COALESCE(SUM(held), 0) FROM uploads WHERE account_id = l.account_id AND state IN ('parked', 'reclaiming')`},
}

type balance struct {
	account drive.AccountID
	has     drive.ByteSize
	sum     drive.ByteSize
}

func scanBalance(b *balance, scan func(...any) error) error { return scan(&b.account, &b.has, &b.sum) }

// checkLedgers compares one of the balances of every account with its sum. A statement is one
// moment of the database, and every transaction keeps them equal.
func (p *pass) checkLedgers(ctx context.Context, i int) error {
	const page = 50 // each row of it adds up a whole account
	b := balances[i]
	query := fmt.Sprintf(`SELECT l.account_id, l.%s, (%s) FROM ledgers l WHERE l.account_id > ? ORDER BY l.account_id LIMIT ?`, b.column, b.sum)
	err := each(ctx, p, query, page, scanBalance, func(row balance) any { return row.account }, func(row balance) error {
		if i == 0 {
			p.report.Checked.Accounts++
		}
		if row.has == row.sum {
			return nil
		}
		return p.found(ctx, wrongBalance(i, row))
	})
	if err != nil {
		return fmt.Errorf("check %s: %w", b.column, err)
	}
	return nil
}

func wrongBalance(i int, row balance) defect {
	b := balances[i]
	return defect{
		Finding: Finding{
			Invariant: b.invariant, Subject: "account " + row.account.String(),
			Expected: fmt.Sprintf("%s %d", b.column, row.sum), Found: fmt.Sprintf("%s %d", b.column, row.has),
		},
		fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
			return fixBalance(ctx, tx, i, row.account, f)
		},
	}
}

// fixBalance adds up again within the transaction: what has moved since the defect was seen is not
// lost.
func fixBalance(ctx context.Context, tx *sqldb.Tx, i int, account drive.AccountID, f *Finding) (bool, error) {
	if err := (quota.Ledger{}).Lock(ctx, tx, account); err != nil {
		return false, err
	}
	b := balances[i]
	var version int64
	var has, sum drive.ByteSize
	err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT l.version, l.%s, (%s) FROM ledgers l WHERE l.account_id = ?`, b.column, b.sum), account).
		Scan(&version, &has, &sum)
	if drive.IsKind(err, drive.NotFound) || err == nil && has == sum {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, fmt.Sprintf(`UPDATE ledgers SET %s = ?, version = version + 1 WHERE account_id = ? AND version = ?`, b.column),
		sum, account, version)
	f.Expected, f.Found = fmt.Sprintf("%s %d", b.column, sum), fmt.Sprintf("%s %d", b.column, has)
	f.Repaired = n == 1
	return true, err
}

// hold is an upload that is charged for in a state that charges nothing.
type hold struct {
	id             drive.UploadID
	state          string
	gen            int64
	size           *drive.ByteSize
	reserved, held drive.ByteSize
}

func scanHold(h *hold, scan func(...any) error) error {
	return scan(&h.id, &h.state, &h.gen, &h.size, &h.reserved, &h.held)
}

// checkHolds looks at the rows that the sums are made of: reserved belongs to active and sealing,
// held to parked and reclaiming, and no reservation is smaller than the file.
func (p *pass) checkHolds(ctx context.Context) error {
	const query = `SELECT id, state, gen, size, reserved, held FROM uploads WHERE (
			state NOT IN ('active', 'sealing') AND reserved <> 0 OR state NOT IN ('parked', 'reclaiming') AND held <> 0
			OR state IN ('active', 'sealing') AND reserved < size)
		AND id > ? ORDER BY id LIMIT ?`
	return each(ctx, p, query, pageSize, scanHold, func(h hold) any { return h.id }, func(h hold) error {
		switch open := h.state == "active" || h.state == "sealing"; {
		case open && h.held == 0: // only too little reserved is left: the next pause or seal sets it right, or a 507 does
			return p.found(ctx, defect{Finding: h.finding("Q2", fmt.Sprintf("at least %d reserved", *h.size))})
		case open:
			return p.found(ctx, h.wrong("Q3", "held", h.held))
		case h.reserved != 0:
			if err := p.found(ctx, h.wrong("Q2", "reserved", h.reserved)); err != nil {
				return err
			}
		}
		if h.held != 0 && h.state != "parked" && h.state != "reclaiming" {
			return p.found(ctx, h.wrong("Q3", "held", h.held))
		}
		return nil
	})
}

func (h hold) finding(invariant, expected string) Finding {
	return Finding{
		Invariant: invariant, Subject: "upload " + h.id.String(), Expected: expected,
		Found: fmt.Sprintf("%s, %d reserved, %d held", h.state, h.reserved, h.held),
	}
}

// wrong is a charge that no sum counts: it is taken off the row and changes no balance.
func (h hold) wrong(invariant, column string, has drive.ByteSize) defect {
	return defect{
		Finding: h.finding(invariant, column+" 0"),
		fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
			n, err := tx.Exec(ctx, fmt.Sprintf(`UPDATE uploads SET %s = 0 WHERE id = ? AND state = ? AND gen = ? AND %s = ?`, column, column),
				h.id, h.state, h.gen, has)
			f.Repaired = n == 1
			return n == 1, err
		},
	}
}
