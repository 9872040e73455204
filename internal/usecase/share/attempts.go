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
// whether the code is right, under two subjects: the share and the address together, and the share
// alone, so that many addresses gain little. The right code takes its attempt back. The counts are
// rows, so that they hold for all instances together and survive a restart; a row holds the
// attempts of one window, which begins with its first.
const (
	attemptWindow = 15 * time.Minute
	maxByAddress  = 10  // attempts a window of one address at one share
	maxByShare    = 300 // of all addresses: 31^6 codes take 80 years
)

// attempt counts one; Rate when there were too many.
func (s *Shares) attempt(ctx context.Context, id drive.ShareID, client netip.Addr) error {
	now := s.Now()
	return s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := take(ctx, tx, bySource(id, client), maxByAddress, now); err != nil {
			return err
		}
		return take(ctx, tx, id.String(), maxByShare, now)
	})
}

// bySource is the subject of an address at a share. An IPv6 client owns its /64, so that is one
// address; local sockets have none.
func bySource(id drive.ShareID, client netip.Addr) string {
	client = client.Unmap().WithZone("")
	from := client.String()
	if client.Is6() {
		from = netip.PrefixFrom(client, 64).Masked().String()
	}
	sum := sha256.Sum256([]byte(id.String() + " " + from))
	return base64.RawURLEncoding.EncodeToString(sum[:])
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
		wait := started.Add(attemptWindow).Sub(now)
		return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(max(wait, time.Second).Seconds())))
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
	for _, subject := range []string{bySource(id, client), id.String()} {
		if _, err := tx.Exec(ctx, "UPDATE share_attempts SET tries = tries - 1 WHERE subject = ? AND tries > 0", subject); err != nil {
			return wrap(err, subject)
		}
	}
	return nil
}
