package fsck

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// balances maps ledger columns to the query of their sum.
var balances = []struct{ invariant, column, sum string }{
	{"Q1", "finished", `SELECT (SELECT COALESCE(SUM(size), 0) FROM versions WHERE account_id = l.account_id)
		+ (SELECT COALESCE(SUM(charged), 0) FROM export_pins WHERE account_id = l.account_id)`},
	{"Q2", "reserved", `SELECT COALESCE(SUM(reserved), 0) FROM uploads WHERE account_id = l.account_id AND state IN ('active', 'sealing')`},
	{"Q3", "unfinished", `SELECT COALESCE(SUM(held), 0) FROM uploads WHERE account_id = l.account_id AND state IN ('parked', 'reclaiming')`},
}

// balance is a stored value of an account and the value computed from other rows.
type balance struct {
	account drive.AccountID
	stored  drive.ByteSize
	actual  drive.ByteSize
}

// scanBalance reads an account, its stored and its computed value into b by calling scan, and
// returns the error of scan.
func scanBalance(b *balance, scan func(...any) error) error {
	return scan(&b.account, &b.stored, &b.actual)
}

// checkLedgers compares balance i of each account with its sum. One statement reads both, and each
// transaction keeps them equal.
func (p *pass) checkLedgers(ctx context.Context, i int) error {
	const page = 50 // each row adds up a whole account
	b := balances[i]
	query := fmt.Sprintf(`SELECT l.account_id, l.%s, (%s) FROM ledgers l WHERE l.account_id > ? ORDER BY l.account_id LIMIT ?`, b.column, b.sum)
	err := each(ctx, p, query, page, scanBalance, func(row balance) any { return row.account }, func(row balance) error {
		if i == 0 {
			p.report.Checked.Accounts++
		}
		if row.stored == row.actual {
			return nil
		}
		return p.found(ctx, wrongBalance(i, row))
	})
	if err != nil {
		return fmt.Errorf("check %s: %w", b.column, err)
	}
	return nil
}

// wrongBalance returns the defect of a wrong value of balances[i]. Its repair recomputes the value.
func wrongBalance(i int, row balance) defect {
	b := balances[i]
	return defect{
		Finding: Finding{
			Invariant: b.invariant, Subject: "account " + row.account.String(),
			Expected: fmt.Sprintf("%s %d", b.column, row.actual), Found: fmt.Sprintf("%s %d", b.column, row.stored),
		},
		fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
			return fixBalance(ctx, tx, i, row.account, f)
		},
	}
}

// fixBalance recomputes balances[i] of an account within tx under the lock of the ledger, stores it
// and updates f. It returns false, and changes nothing, if the value is right by now.
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

// wrongCharge is an upload with charges that its state does not permit.
type wrongCharge struct {
	id             drive.UploadID
	state          string
	gen            int64
	size           *drive.ByteSize
	reserved, held drive.ByteSize
}

// scanCharge reads a row of the query of checkHolds into h by calling scan, and returns the error
// of scan.
func scanCharge(h *wrongCharge, scan func(...any) error) error {
	return scan(&h.id, &h.state, &h.gen, &h.size, &h.reserved, &h.held)
}

// checkHolds checks the charges of single uploads: reserved is for active and sealing, held for
// parked and reclaiming, and a reservation is at least the file size.
func (p *pass) checkHolds(ctx context.Context) error {
	const query = `SELECT id, state, gen, size, reserved, held FROM uploads WHERE (
			state NOT IN ('active', 'sealing') AND reserved <> 0 OR state NOT IN ('parked', 'reclaiming') AND held <> 0
			OR state IN ('active', 'sealing') AND reserved < size)
		AND id > ? ORDER BY id LIMIT ?`
	return each(ctx, p, query, pageSize, scanCharge, func(h wrongCharge) any { return h.id }, func(h wrongCharge) error {
		switch open := h.state == "active" || h.state == "sealing"; {
		case open && h.held == 0: // the reservation is too small: the next pause or seal corrects it, or returns 507
			return p.found(ctx, defect{Finding: h.finding("Q2", fmt.Sprintf("at least %d reserved", *h.size))})
		case open:
			return p.found(ctx, h.defect("Q3", "held", h.held))
		case h.reserved != 0:
			if err := p.found(ctx, h.defect("Q2", "reserved", h.reserved)); err != nil {
				return err
			}
		}
		if h.held != 0 && h.state != "parked" && h.state != "reclaiming" {
			return p.found(ctx, h.defect("Q3", "held", h.held))
		}
		return nil
	})
}

// finding returns a finding about the upload with its charges.
func (h wrongCharge) finding(invariant, expected string) Finding {
	return Finding{
		Invariant: invariant, Subject: "upload " + h.id.String(), Expected: expected,
		Found: fmt.Sprintf("%s, %d reserved, %d held", h.state, h.reserved, h.held),
	}
}

// defect returns the defect of a charge that no sum includes. The repair removes it from the row
// and changes no balance.
func (h wrongCharge) defect(invariant, column string, has drive.ByteSize) defect {
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
