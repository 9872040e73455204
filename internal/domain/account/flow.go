package account

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// A flow is how a program gets an app password without ever seeing the password of the account:
//
//	program                         server                        browser
//	begin ───────────────────────►  poll token, page token
//	opens the page ─────────────────────────────────────────────► page token
//	                                GrantFlow: the token is made ◄ its user allows it
//	poll with the poll token ────►  name and secret
//
// Nothing is kept until it is granted, so that nobody can fill a table without a login. The page
// token has a hash of the poll token, so that whoever sees the page learns nothing. The id of the
// app password is made of that hash: granting twice makes one. The grant keeps the hash in the
// place of a secret, which no secret has; the first poll puts the hash of a new secret there and is
// the only one that is answered. A program whose reply was lost begins again.

const (
	flowLife    = 20 * time.Minute // from begin to the grant, and from there to the poll
	maxFlowName = MaxNameBytes
)

// Flow is what the page of a flow says.
type Flow struct {
	Agent string     // what the program calls itself: nobody has checked it
	Ends  drive.Time // until when it may be granted
	hash  secretHash
}

// BeginFlow begins a flow: poll is for the program alone, page for the address that it opens.
func (s *Sessions) BeginFlow(agent string) (poll, page string) {
	raw := random(secretBytes)
	f := Flow{Agent: clipLabel(agentName(agent)), Ends: drive.TimeOf(s.opt.Now()).Add(flowLife), hash: flowHash(raw)}
	return secretBase64.EncodeToString(raw), f.text()
}

// flowHash is the hash of a poll token. No secret has it: those are 32 bytes long.
func flowHash(raw []byte) secretHash {
	return sha256.Sum256(append([]byte("smartdrive login flow\x00"), raw...))
}

// session returns the id of the app password of the flow, a UUIDv7 of when the flow began.
func (f Flow) session() drive.SessionID {
	sum := sha256.Sum256(append([]byte("smartdrive session of a login flow\x00"), f.hash[:]...))
	id := drive.SessionID(sum[:16])
	began := uint64(f.Ends) - uint64(flowLife.Milliseconds())
	for i := range 6 {
		id[i] = byte(began >> (40 - 8*i))
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// text is the page token: 32 bytes of hash, 8 of the end, and the name.
func (f Flow) text() string {
	b := append([]byte{}, f.hash[:]...)
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(f.Ends>>shift))
	}
	return base64.RawURLEncoding.EncodeToString(append(b, f.Agent...))
}

// ReadFlow reads a page token. NotFound: it is none; Gone {reason expired}.
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

// clipLabel makes a name of something that others said: see parseLabel.
func clipLabel(s string) string {
	for len(s) > MaxNameBytes {
		s = s[:len(s)-1]
	}
	name, err := parseLabel("name", s)
	if err != nil {
		return "app"
	}
	return name
}

// GrantFlow gives the program behind a page token an app password for the heads that in names, with
// the name that it calls itself unless in has another. Only a login may. Granting twice is granting
// once. Errors: NotFound, Gone, those of CreateToken.
func (s *Sessions) GrantFlow(ctx context.Context, who drive.Who, page string, in NewToken) error {
	f, err := s.ReadFlow(page)
	if err != nil {
		return err
	}
	if in.Name == "" {
		in.Name = f.Agent
	}
	_, err = s.addToken(ctx, who, f.session(), in, f.hash, mayCreateToken)
	return err
}

// PollFlow returns the app password of the flow of a poll token, and the name of its user, to the
// first caller after the grant alone. NotFound: it was not granted, was answered before, or has
// ended.
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
		if err == nil && n == 0 { // another poll has it, or its user has ended it
			err = drive.Fail(drive.NotFound)
		}
		return err
	})
	if err != nil {
		return Granted{}, "", fmt.Errorf("answer the poll of a flow: %w", err)
	}
	return Granted{Session: session, Secret: secret}, rows[0].name, nil
}

// Exchange makes an app password for a program that came with the account's own password, so that
// it need not keep that one. Who comes with a token is Forbidden.
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
		return countTokens(ctx, tx, who)
	})
	if err != nil {
		return Granted{}, fmt.Errorf("exchange a password: %w", err)
	}
	return Granted{Session: session, Secret: secret}, nil
}
