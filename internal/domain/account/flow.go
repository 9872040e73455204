package account

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// A flow gives a program an app password without showing it the account's password:
//
//	program                         server                        browser
//	begin ───────────────────────►  poll token, page token
//	opens the page ─────────────────────────────────────────────► page token
//	                                GrantFlow: creates the token ◄ the user allows it
//	poll with the poll token ────►  name and secret
//
// Nothing is stored before the grant, so that clients without a login cannot fill a table. The page
// token contains a hash of the poll token, so that a reader of the page learns nothing. The id of
// the app password derives from that hash, so granting twice creates one. The grant stores the hash
// in place of a secret; no secret has that hash. The first poll replaces it by the hash of a new
// secret and is the only one answered. A program that lost the reply starts again.

// Bounds of a flow.
const (
	flowLife    = 20 * time.Minute // from begin to grant, and from grant to poll
	maxFlowName = MaxNameBytes
)

// Flow is the content of a page token.
type Flow struct {
	Agent string     // name that the program claims; not verified
	Ends  drive.Time // deadline of the grant
	hash  secretHash // of the secret that the program polls with
}

// BeginFlow starts a flow. poll is the secret that the program polls with. page is the public token
// for the address that it opens in a browser.
func (s *Sessions) BeginFlow(agent string) (poll, page string) {
	raw := random(secretBytes)
	f := Flow{Agent: clipLabel(agentName(agent)), Ends: drive.TimeOf(s.opt.Now()).Add(flowLife), hash: flowHash(raw)}
	return secretBase64.EncodeToString(raw), f.pageToken()
}

// flowHash returns the hash of a poll token. It differs from the hash of every bearer secret,
// because the input is longer than 32 bytes.
func flowHash(raw []byte) secretHash {
	return sha256.Sum256(append([]byte("smartdrive login flow\x00"), raw...))
}

// sessionID returns the id of the flow's app password: a UUIDv7 with the time at which the flow
// began.
func (f Flow) sessionID() drive.SessionID {
	sum := sha256.Sum256(append([]byte("smartdrive session of a login flow\x00"), f.hash[:]...))
	id := drive.SessionID(sum[:16])
	began := uint64(f.Ends) - uint64(flowLife.Milliseconds())
	for i := range 6 {
		id[i] = byte(began >> (40 - 8*i))
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// pageToken encodes f: 32 bytes of hash, 8 bytes of deadline, and the name.
func (f Flow) pageToken() string {
	b := append([]byte{}, f.hash[:]...)
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(f.Ends>>shift))
	}
	return base64.RawURLEncoding.EncodeToString(append(b, f.Agent...))
}

// ReadFlow decodes a page token. It fails with NotFound if the token is malformed, and with Gone
// {reason: expired}.
func (s *Sessions) ReadFlow(page string) (Flow, error) {
	const fixed = sha256.Size + 8
	b, err := base64.RawURLEncoding.Strict().DecodeString(page)
	if err != nil || len(b) < fixed || len(b) > fixed+maxFlowName {
		return Flow{}, drive.Fail(drive.NotFound)
	}
	f := Flow{hash: secretHash(b[:sha256.Size]), Agent: clipLabel(agentName(string(b[fixed:])))}
	for _, c := range b[sha256.Size:fixed] {
		f.Ends = f.Ends<<8 | drive.Time(c)
	}
	now := drive.TimeOf(s.opt.Now())
	if now >= f.Ends || f.Ends.Sub(now) > flowLife {
		return Flow{}, drive.Fail(drive.Gone, "reason", "expired")
	}
	return f, nil
}

// clipLabel shortens a name from a client to a valid label; "app" if that fails.
func clipLabel(s string) string {
	for len(s) > MaxNameBytes {
		s = s[:len(s)-1]
	}
	name, err := drive.ParseLabel("name", s, MaxNameBytes)
	if err != nil {
		return "app"
	}
	return name
}

// GrantFlow creates the app password of a flow for the heads and scopes in in. An empty in.Name
// selects the program's own name. The caller must use a login session. Repeating it changes
// nothing. It fails with NotFound for a malformed page token, with Gone {reason: expired}, with
// Forbidden if the caller may not create tokens, with BadRequest for invalid scopes, heads, name or
// life, and with TooManyOpen.
func (s *Sessions) GrantFlow(ctx context.Context, who drive.Who, page string, in NewToken) error {
	f, err := s.ReadFlow(page)
	if err != nil {
		return err
	}
	if in.Name == "" {
		in.Name = f.Agent
	}
	_, err = s.addToken(ctx, who, f.sessionID(), in, f.hash, authorizeToken)
	return err
}

// PollFlow returns the app password of a granted flow and the name of its user, once. It fails with
// NotFound if poll is malformed, or if the flow is not granted, was answered before, or has ended.
func (s *Sessions) PollFlow(ctx context.Context, poll string) (Granted, string, error) {
	raw, err := secretBase64.DecodeString(poll)
	if err != nil || len(raw) != secretBytes {
		return Granted{}, "", drive.Fail(drive.NotFound)
	}
	rows, err := s.auth.read(ctx, []secretHash{flowHash(raw)})
	if err != nil {
		return Granted{}, "", err
	}
	if len(rows) == 0 {
		return Granted{}, "", drive.Fail(drive.NotFound)
	}
	now, session := drive.TimeOf(s.opt.Now()), rows[0].session
	if _, err := rows[0].who(now); err != nil {
		return Granted{}, "", drive.Wrap(err, drive.NotFound)
	}
	if now.Sub(session.CreatedAt) >= flowLife {
		return Granted{}, "", drive.Fail(drive.NotFound)
	}
	secret, hash := newSecret()
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		waits := flowHash(raw)
		n, err := tx.Exec(ctx, "UPDATE sessions SET secret = ? WHERE id = ? AND secret = ?", hash[:], session.ID, waits[:])
		if err == nil && n == 0 { // answered by another poll, or revoked by the user
			err = drive.Fail(drive.NotFound)
		}
		return err
	})
	if err != nil {
		return Granted{}, "", fmt.Errorf("answer the poll of a flow: %w", err)
	}
	return Granted{Session: session, Secret: secret}, rows[0].name, nil
}

// Exchange creates an app password for a program that authenticated with the account's password, so
// that it need not store that. It fails with Forbidden {reason: login-required} for a caller with a
// session or token, with Forbidden {reason: scope} for the scope admin, with BadRequest for invalid
// scopes, heads or life, and with TooManyOpen. An invalid name becomes "app".
func (s *Sessions) Exchange(ctx context.Context, who drive.Who, in NewToken) (Granted, error) {
	if !who.Session.IsZero() {
		return Granted{}, drive.Fail(drive.Forbidden, "reason", "login-required")
	}
	in.Name = clipLabel(agentName(in.Name))
	secret, hash := newSecret()
	session, err := s.addToken(ctx, who, drive.NewID[drive.SessionID](), in, hash, func(ctx context.Context, tx *sqldb.Tx, who drive.Who) error {
		if err := lockUser(ctx, tx, who); err != nil {
			return err
		}
		return checkTokenCount(ctx, tx, who)
	})
	if err != nil {
		return Granted{}, fmt.Errorf("exchange a password: %w", err)
	}
	return Granted{Session: session, Secret: secret}, nil
}
