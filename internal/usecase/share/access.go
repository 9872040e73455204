package share

import (
	"context"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/ticket"
)

// AccessLife is how long an access is good. A download that has begun goes on beyond it.
const AccessLife = time.Hour

// entry is what a visitor may do for a while. Its text is a ticket of
//
//	16 share | 16 visit | 8 epoch | 8 expiry, Unix ms
type entry struct {
	share   drive.ShareID
	visit   drive.VisitID
	epoch   int64
	expires drive.Time
}

const (
	accessSize = 2*16 + 2*8
	signs      = "share access" // the purpose of the key
)

func (a entry) text(key ticket.Key) string {
	return key.Sign(ticket.Put(slices.Concat(a.share[:], a.visit[:]), a.epoch, int64(a.expires)))
}

// parseAccess reads an access that was signed with the key.
func parseAccess(text string, key ticket.Key) (entry, bool) {
	b, ok := key.Open(text, accessSize, accessSize)
	if !ok {
		return entry{}, false
	}
	return entry{
		share: drive.ShareID(b[:16]), visit: drive.VisitID(b[16:32]),
		epoch: ticket.Number[int64](b[32:]), expires: ticket.Number[drive.Time](b[40:]),
	}, true
}

// valid checks an access to a share. The error is Unauthenticated with the reason missing, invalid
// or expired.
func (s *Shares) valid(ctx context.Context, sh Share, text string) (entry, error) {
	if text == "" {
		return entry{}, drive.Fail(drive.Unauthenticated, "reason", "missing")
	}
	key, err := s.SigningKey(ctx, signs)
	if err != nil {
		return entry{}, err
	}
	t, ok := parseAccess(text, key)
	switch {
	case !ok || t.share != sh.ID || t.epoch != sh.Epoch:
		return entry{}, drive.Fail(drive.Unauthenticated, "reason", "invalid")
	case s.Now() >= t.expires:
		return entry{}, drive.Fail(drive.Unauthenticated, "reason", "expired")
	}
	return t, nil
}
