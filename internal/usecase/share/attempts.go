package share

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"net/netip"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Codes are tried by people who mistype, and by programs. Each attempt counts, before it is known
// whether the code is right, under three subjects: the share and the address together, the share
// and the network of the address, and the share alone. The right code takes its attempt back. The
// counts are rows, so that they hold for all instances together and survive a restart; a row holds
// the attempts of one window, which begins with its first.
//
// Others' wrong codes never keep a visitor out: an address that has not tried yet gets its attempt.
// They do take its further ones away. When a share has had so many attempts that a program must be
// at work, an address waits between two attempts, each time twice as long: of 15 minutes it gets 4
// attempts in place of 10.
const (
	attemptWindow = 15 * time.Minute
	maxByAddress  = 10     // attempts a window of one address at one share
	maxByNetwork  = 60     // of an IPv4 /24 or an IPv6 /48
	manyByShare   = 300    // of all addresses; from then on an address waits between two
	maxByShare    = 50_000 // of all addresses; more would only be more rows
	firstWait     = time.Minute
)

// attempt counts one; Rate when there were too many.
func (s *Shares) attempt(ctx context.Context, id drive.ShareID, client netip.Addr) error {
	now := s.Now()
	return s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		subjects := subjectsOf(id, client)
		limit, err := patience(ctx, tx, subjects, now)
		if err != nil {
			return err
		}
		for i, limit := range [...]int{limit, maxByNetwork, maxByShare} {
			if err := take(ctx, tx, subjects[i], limit, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// subjectsOf returns what an attempt counts under, in the order in which they are locked: its
// address, its network, the share. An IPv6 client owns its /64, so that is one address, and its
// provider may have given it a /48; local sockets have none.
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

// patience returns how many attempts the address may have made by now, this one included. Rate: it
// has to wait.
func patience(ctx context.Context, tx *sqldb.Tx, subjects [3]string, now drive.Time) (limit int, err error) {
	all, _, err := tried(ctx, tx, subjects[2], now)
	if err != nil || all < manyByShare {
		return maxByAddress, err
	}
	n, began, err := tried(ctx, tx, subjects[0], now)
	if err != nil {
		return 0, err
	}
	n = min(n, maxByAddress)
	waits := min(firstWait*time.Duration(1<<n-1), attemptWindow) // 0, 1, 3, 7 minutes from the first on
	if left := began.Add(waits).Sub(now); n > 0 && left > 0 {
		return 0, mustWait(left)
	}
	return n + 1, nil
}

// tried returns how many attempts a subject has made in its window, and when that began.
func tried(ctx context.Context, tx *sqldb.Tx, subject string, now drive.Time) (n int, began drive.Time, err error) {
	err = tx.QueryRow(ctx, "SELECT tries, started_at FROM share_attempts WHERE subject = ? AND started_at > ? AND started_at <= ?",
		subject, now.Add(-attemptWindow), now.Add(attemptWindow)).Scan(&n, &began)
	if drive.IsKind(err, drive.NotFound) {
		return 0, 0, nil
	}
	return n, began, wrap(err, subject)
}

func mustWait(wait time.Duration) error {
	return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(max(wait, time.Second).Seconds())))
}

func take(ctx context.Context, tx *sqldb.Tx, subject string, limit int, now drive.Time) error {
	before, ahead := now.Add(-attemptWindow), now.Add(attemptWindow) // a window that begins later was begun by a clock that was ahead
	// tries stands first: MySQL computes from the left, with what it has assigned.
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
		return mustWait(started.Add(attemptWindow).Sub(now))
	}
	if !drive.IsKind(err, drive.NotFound) {
		return wrap(err, subject)
	}
	made, err := tx.InsertNew(ctx, "INSERT INTO share_attempts (subject, tries, started_at) VALUES (?, 1, ?)", subject, now)
	if err == nil && !made {
		return sqldb.Again(fmt.Errorf("count an attempt of %s", subject))
	}
	return wrap(err, subject)
}

func wrap(err error, subject string) error {
	if err != nil {
		return fmt.Errorf("count an attempt of %s: %w", subject, err)
	}
	return nil
}

// pardon takes an attempt back that had the right code, in the order in which attempt locks.
func pardon(ctx context.Context, tx *sqldb.Tx, id drive.ShareID, client netip.Addr) error {
	for _, subject := range subjectsOf(id, client) {
		if _, err := tx.Exec(ctx, "UPDATE share_attempts SET tries = tries - 1 WHERE subject = ? AND tries > 0", subject); err != nil {
			return wrap(err, subject)
		}
	}
	return nil
}
