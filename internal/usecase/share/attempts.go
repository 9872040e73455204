package share

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"net/netip"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Each attempt to enter a code counts before the code is compared, under three subjects: share and
// address, share and network, and share. A right code uncounts its attempt. The counts are stored
// in the database, so they hold for all instances and across restarts. A row counts the attempts of
// one window, which begins with the first attempt.
//
// Wrong codes of others never lock out a visitor: an address without an attempt always gets one.
// They do reduce its further attempts: once a share has had so many attempts that a program must be
// at work, an address must wait between attempts, twice as long each time. It then has 4 attempts
// in 15 minutes instead of 10.
const (
	attemptWindow = 15 * time.Minute
	maxByAddress  = 10          // attempts per window of one address at one share
	maxByNetwork  = 60          // per IPv4 /24 or IPv6 /48
	manyByShare   = 300         // by all addresses; beyond it an address must wait between attempts
	maxByShare    = 50_000      // by all addresses
	firstWait     = time.Minute // wait after the first attempt beyond manyByShare; doubles
)

// attempt counts, in a transaction of its own, an attempt of a client to give the code, before the
// code is compared. It returns Rate {retry_after} if the client, its network or all have made too
// many.
func (s *Shares) attempt(ctx context.Context, id drive.ShareID, client netip.Addr) error {
	now := s.Now()
	return s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		subjects := subjectsOf(id, client)
		limit, err := attemptLimit(ctx, tx, subjects, now)
		if err != nil {
			return err
		}
		for i, limit := range [...]int{limit, maxByNetwork, maxByShare} {
			if err := count(ctx, tx, subjects[i], limit, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// subjectsOf returns the subjects of an attempt in locking order: address, network, share. An IPv6
// client owns its /64, which counts as one address, and may own a /48, which counts as its network.
// Unix socket clients share the zero address.
func subjectsOf(id drive.ShareID, client netip.Addr) [3]string {
	client = client.Unmap().WithZone("")
	bits, network := client.BitLen(), 24
	if client.Is6() {
		bits, network = 64, 48
	}
	by := func(bits int) string {
		from, _ := client.Prefix(min(bits, client.BitLen())) // the zero address has the zero prefix
		sum := sha256.Sum256(fmt.Appendf(nil, "%v %d %v", id, bits, from))
		return base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return [3]string{by(bits), by(network), id.String()}
}

// attemptLimit returns how many attempts the address may have made in its window, including this
// one. Rate if it has to wait first.
func attemptLimit(ctx context.Context, tx *sqldb.Tx, subjects [3]string, now drive.Time) (limit int, err error) {
	all, _, err := tried(ctx, tx, subjects[2], now)
	if err != nil || all < manyByShare {
		return maxByAddress, err
	}
	n, began, err := tried(ctx, tx, subjects[0], now)
	if err != nil {
		return 0, err
	}
	n = min(n, maxByAddress)
	waits := min(firstWait*time.Duration(1<<n-1), attemptWindow) // 0, 1, 3, 7 minutes after the first attempt
	if left := began.Add(waits).Sub(now); n > 0 && left > 0 {
		return 0, errMustWait(left)
	}
	return n + 1, nil
}

// tried returns the number of attempts of a subject in its current window, and the window's start;
// zero if there is none.
func tried(ctx context.Context, tx *sqldb.Tx, subject string, now drive.Time) (n int, began drive.Time, err error) {
	err = tx.QueryRow(ctx, "SELECT tries, started_at FROM share_attempts WHERE subject = ? AND started_at > ? AND started_at <= ?",
		subject, now.Add(-attemptWindow), now.Add(attemptWindow)).Scan(&n, &began)
	if drive.IsKind(err, drive.NotFound) {
		return 0, 0, nil
	}
	return n, began, wrap(err, subject)
}

// errMustWait returns the Rate error with the remaining wait in whole seconds, rounded up, at least
// 1.
func errMustWait(wait time.Duration) error {
	return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(max(wait, time.Second).Seconds())))
}

// count adds an attempt to a subject, starting a new window if needed; Rate if the subject has made
// limit attempts.
func count(ctx context.Context, tx *sqldb.Tx, subject string, limit int, now drive.Time) error {
	before, ahead := now.Add(-attemptWindow), now.Add(attemptWindow) // a later start was written by a clock that ran ahead
	// tries must come first: MySQL evaluates assignments from left to right with the new
	// values.
	n, err := tx.Exec(ctx, `UPDATE share_attempts SET tries = CASE WHEN started_at <= ? OR started_at > ? THEN 1 ELSE tries + 1 END,
		started_at = CASE WHEN started_at <= ? OR started_at > ? THEN ? ELSE started_at END
		WHERE subject = ? AND (tries < ? OR started_at <= ? OR started_at > ?)`,
		before, ahead, before, ahead, now, subject, limit, before, ahead)
	if err != nil || n == 1 {
		return wrap(err, subject)
	}
	var started drive.Time
	err = tx.QueryRow(ctx, "SELECT started_at FROM share_attempts WHERE subject = ?", subject).Scan(&started)
	if err == nil {
		return errMustWait(started.Add(attemptWindow).Sub(now))
	}
	if !drive.IsKind(err, drive.NotFound) {
		return wrap(err, subject)
	}
	made, err := tx.InsertNew(ctx, "INSERT INTO share_attempts (subject, tries, started_at) VALUES (?, 1, ?)", subject, now)
	if err == nil && !made {
		return sqldb.Rerun(fmt.Errorf("count an attempt of %s", subject))
	}
	return wrap(err, subject)
}

// wrap adds to err that an attempt of subject was being counted. It returns nil for nil.
func wrap(err error, subject string) error {
	if err != nil {
		return fmt.Errorf("count an attempt of %s: %w", subject, err)
	}
	return nil
}

// uncount undoes, within tx, the counting of the latest attempt, because its code was right. It
// updates rows in the same order as attempt.
func uncount(ctx context.Context, tx *sqldb.Tx, id drive.ShareID, client netip.Addr) error {
	for _, subject := range subjectsOf(id, client) {
		if _, err := tx.Exec(ctx, "UPDATE share_attempts SET tries = tries - 1 WHERE subject = ? AND tries > 0", subject); err != nil {
			return wrap(err, subject)
		}
	}
	return nil
}
