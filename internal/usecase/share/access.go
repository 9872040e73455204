package share

import (
	"context"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/ticket"
)

// AccessLife is how long an access is valid. A download that has begun continues after that.
const AccessLife = time.Hour

// accessTicket is the content of an access, which authorizes a visitor. Its text is a signed ticket
// of
//
//	16 share | 16 visit | 8 epoch | 8 expiry, Unix ms
type accessTicket struct {
	share   drive.ShareID
	visit   drive.VisitID
	epoch   int64
	expires drive.Time
}

const (
	// ticketSize is the length in bytes of a ticket: two ids and two numbers.
	ticketSize = 2*16 + 2*8
	keyPurpose = "share access" // purpose of the signing key
)

// text returns the signed access.
func (a accessTicket) text(key ticket.Key) string {
	return key.Sign(ticket.AppendNumbers(slices.Concat(a.share[:], a.visit[:]), a.epoch, int64(a.expires)))
}

// parseAccess returns the content of an access; false if it is malformed or its signature is wrong.
func parseAccess(text string, key ticket.Key) (accessTicket, bool) {
	b, ok := key.Open(text, ticketSize, ticketSize)
	if !ok {
		return accessTicket{}, false
	}
	return accessTicket{
		share: drive.ShareID(b[:16]), visit: drive.VisitID(b[16:32]),
		epoch: ticket.ReadNumber[int64](b[32:]), expires: ticket.ReadNumber[drive.Time](b[40:]),
	}, true
}

// checkAccess checks an access to a share: Unauthenticated {reason: missing, invalid or expired} if
// it is not valid.
func (s *Shares) checkAccess(ctx context.Context, sh Share, text string) (accessTicket, error) {
	if text == "" {
		return accessTicket{}, drive.Fail(drive.Unauthenticated, "reason", "missing")
	}
	key, err := s.SigningKey(ctx, keyPurpose)
	if err != nil {
		return accessTicket{}, err
	}
	t, ok := parseAccess(text, key)
	switch {
	case !ok || t.share != sh.ID || t.epoch != sh.Epoch:
		return accessTicket{}, drive.Fail(drive.Unauthenticated, "reason", "invalid")
	case s.Now() >= t.expires:
		return accessTicket{}, drive.Fail(drive.Unauthenticated, "reason", "expired")
	}
	return t, nil
}
