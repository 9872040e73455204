package signon

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/admin"
	"example.org/smartdrive/internal/usecase/space"
)

// Options describe the provider and the rights that its claims grant. Issuer and Client are
// required.
type Options struct {
	Issuer string // URL; the provider's metadata is below it
	Client string // client id at the provider
	Secret string // client secret; empty: a public client
	Name   string // name of the provider, shown to people
	// Scopes are requested besides openid.
	Scopes []string

	GroupsClaim string   // claim with the groups; "a.b": member b of claim a; empty: no groups
	Users       []string // groups whose members may sign in; empty: everybody
	Admins      []string // groups whose members are administrators; empty: claims do not decide it
	Groups      []string // our groups that follow the provider's groups of the same name; "*": all
	Create      bool     // create a user for an unknown person

	// Life bounds a session. Default: a week.
	Life time.Duration
	// Transport sends requests to the provider. Default: http.DefaultTransport without
	// keep-alive.
	Transport http.RoundTripper
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives problems for the operator. Default: slog.Default.
	Log *slog.Logger
}

// Parts are the dependencies of SignOn. Each is required.
type Parts struct {
	DB       *sqldb.DB
	Users    *account.Users
	Sessions *account.Sessions
	Admin    *admin.Admin
	Spaces   *space.Spaces
	// Secret returns the key that authenticates flows, the same on all instances.
	Secret func(ctx context.Context) ([]byte, error)
}

// SignOn signs people in through one provider. It is safe for concurrent use.
type SignOn struct {
	parts    Parts
	opt      Options
	provider *provider
}

// New returns a SignOn. It does no I/O, so the provider may be down.
func New(parts Parts, opt Options) *SignOn {
	opt.Life = cmp.Or(opt.Life, 7*24*time.Hour)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	return &SignOn{parts, opt, newProvider(opt)}
}

// Name returns the provider's name for people.
func (s *SignOn) Name() string { return s.opt.Name }

const flowLife = time.Hour // between Begin and Finish; includes the time to find a second factor

// flow is the state of one sign-in attempt. The page keeps it, sealed, between Begin and Finish.
type flow struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // PKCE, RFC 7636
	Redirect string `json:"r"`
	Begun    int64  `json:"t"` // Unix seconds

	// For Connect only: the user to connect, and the epoch of the password that the user
	// confirmed.
	User  drive.UserID `json:"u,omitzero"`
	Epoch int64        `json:"e,omitempty"`
}

// Begun is a started attempt: the page opens URL and keeps Flow for Finish or Connect.
type Begun struct {
	URL  string
	Flow string
}

// Begin starts a sign-in whose page is at redirect. It fails with Unavailable {reason: sign-on} if
// the provider does not answer.
func (s *SignOn) Begin(ctx context.Context, redirect string) (Begun, error) {
	return s.begin(ctx, flow{Redirect: redirect})
}

// BeginConnect starts to connect the caller's user to a person at the provider. It requires the
// password, so that nobody gains permanent access from an unattended page. It fails with Forbidden
// {reason: password}, with Rate after too many wrong passwords, and with Unavailable {reason:
// sign-on} if the provider does not answer.
func (s *SignOn) BeginConnect(ctx context.Context, who drive.Who, password string, client netip.Addr, redirect string) (Begun, error) {
	epoch, err := s.parts.Sessions.Confirm(ctx, who, password, client)
	if err != nil {
		return Begun{}, err
	}
	return s.begin(ctx, flow{Redirect: redirect, User: who.User, Epoch: epoch}, oauth2.SetAuthURLParam("prompt", "login")) // the person sees which account is connected
}

// begin adds fresh secrets to f and returns the provider's URL for the browser and the sealed flow,
// which the client must present at the end. also are further parameters of the URL. It returns
// Unavailable while the provider is unknown.
func (s *SignOn) begin(ctx context.Context, f flow, also ...oauth2.AuthCodeOption) (Begun, error) {
	known, err := s.provider.get()
	if err != nil {
		return Begun{}, err
	}
	f.State, f.Nonce, f.Verifier, f.Begun = rand.Text(), rand.Text(), oauth2.GenerateVerifier(), s.opt.Now().Unix()
	sealed, err := s.seal(ctx, f)
	if err != nil {
		return Begun{}, err
	}
	return Begun{known.client(f.Redirect).AuthCodeURL(f.State, append(also, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier))...), sealed}, nil
}

// seal returns the flow as text with a MAC, so that clients cannot change it; they can read it. It
// fails as sum does.
func (s *SignOn) seal(ctx context.Context, f flow) (string, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("write a flow: %w", err)
	}
	sum, err := s.sum(ctx, b)
	return base64.RawURLEncoding.EncodeToString(append(sum, b...)), err
}

// sum returns the MAC of an encoded flow. It fails as Parts.Secret does.
func (s *SignOn) sum(ctx context.Context, b []byte) ([]byte, error) {
	key, err := s.parts.Secret(ctx)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("smartdrive flow of a sign-on\x00"))
	mac.Write(b)
	return mac.Sum(nil), nil
}

// Return contains the parameters that the provider sent to the page, and the flow.
type Return struct {
	Code   string
	State  string
	Issuer string // "iss" of RFC 9207; empty if the provider does not send it
	Flow   string // Begun.Flow
}

// open verifies in and returns its flow. It fails with Gone {reason: sign-on} if the flow is
// forged, expired, for another user, or does not match the state. user is zero for a sign-in.
func (s *SignOn) open(ctx context.Context, in Return, user drive.UserID) (f flow, err error) {
	b, err := base64.RawURLEncoding.DecodeString(in.Flow)
	if err != nil || len(b) < sha256.Size {
		return flow{}, over(err)
	}
	sum, err := s.sum(ctx, b[sha256.Size:])
	if err != nil {
		return flow{}, err
	}
	if !hmac.Equal(sum, b[:sha256.Size]) {
		return flow{}, over(errors.New("not a flow of ours"))
	}
	if err := json.Unmarshal(b[sha256.Size:], &f); err != nil {
		return flow{}, over(err)
	}
	age := s.opt.Now().Sub(time.Unix(f.Begun, 0))
	switch {
	case f.State != in.State:
		return flow{}, over(errors.New("another state"))
	case f.User != user:
		return flow{}, over(errors.New("another user, or for something else"))
	case in.Issuer != "" && in.Issuer != s.opt.Issuer:
		return flow{}, over(errors.New("another issuer"))
	case age > flowLife, age < -flowLife: // either direction: the clocks of instances differ
		return flow{}, over(errors.New("too late"))
	}
	return f, nil
}

// over returns Gone {reason: sign-on} that wraps err: the attempt cannot be finished, and the user
// must begin again.
func over(err error) error { return drive.Wrap(err, drive.Gone, "reason", "sign-on") }

// Finish signs a person in and returns the new session; from describes the client. A code is valid
// once, so the caller must not retry, whatever the error:
//
//	Gone {reason}         sign-on: the flow expired or is not the caller's; sign-on-failed: the provider failed
//	Unavailable           {reason: sign-on}: the provider does not answer; the code was not sent
//	Forbidden {reason}    sign-on-group: not in a required group; sign-on-unknown: no user, and none may be created;
//	                      sign-on-taken: an unconnected user has the name; sign-on-disabled: the user is disabled
//	Rate {retry_after}    too many failed sign-ins from this client
func (s *SignOn) Finish(ctx context.Context, in Return, from account.Login) (account.Granted, error) {
	f, err := s.open(ctx, in, drive.UserID{})
	if err != nil {
		return account.Granted{}, err
	}
	p, err := s.vouched(ctx, in.Code, f, from.Client)
	if err != nil {
		return account.Granted{}, err
	}
	g, err := s.enter(ctx, p, from)
	if err != nil {
		s.opt.Log.Info("who came by the identity provider is not let in", "error", err, "subject", p.identity.Subject, "name", p.name, "groups", strings.Join(p.groups, ", "))
	}
	return g, usedUp(err)
}

// enter finds or creates the user of a person, applies the claims and creates a session. It returns
// Forbidden {reason: sign-on-disabled} if the user is not active.
func (s *SignOn) enter(ctx context.Context, p person, from account.Login) (account.Granted, error) {
	user, err := s.find(ctx, p)
	if err != nil {
		return account.Granted{}, err
	}
	if user.State != account.Active {
		return account.Granted{}, drive.Fail(drive.Forbidden, "reason", "sign-on-disabled")
	}
	if user, err = s.follow(ctx, user, p); err != nil {
		return account.Granted{}, err
	}
	return s.parts.Sessions.Enter(ctx, user, p.identity, from, s.opt.Life)
}

// usedUp replaces Unavailable, Rate and Stopping, which clients retry, by Gone {reason:
// sign-on-failed}: after the code was sent, clients must not retry automatically. Other errors and
// nil are returned as they are.
func usedUp(err error) error {
	if drive.IsKind(err, drive.Unavailable, drive.Rate, drive.Stopping) {
		return drive.Wrap(err, drive.Gone, "reason", "sign-on-failed")
	}
	return err
}

const maxCode = 8 << 10 // bytes

// vouched redeems a code and returns the person. A code that the provider rejects counts as a
// failed sign-in of client, so that nobody can make the server flood the provider. Failures of the
// provider do not count, because people then sign in by password.
func (s *SignOn) vouched(ctx context.Context, code string, f flow, client netip.Addr) (person, error) {
	if code == "" || len(code) > maxCode {
		return person{}, over(errors.New("not a code"))
	}
	known, err := s.provider.get()
	if err != nil {
		return person{}, err
	}
	if err := s.parts.Sessions.Refuses(client); err != nil {
		return person{}, err
	}
	c, err := known.claims(ctx, code, f)
	if e, ok := errors.AsType[*drive.Error](err); ok && e.Args["reason"] == "sign-on" || errors.Is(err, errToken) {
		s.parts.Sessions.Failed(client)
	}
	if err != nil {
		return person{}, err
	}
	return personOf(s.opt, c), nil
}

// Connect finishes what BeginConnect started. It fails with WrongState {state: connected} if the
// user or the person is connected already, with Forbidden {reason: sign-on-group} if the person is
// not in a required group, with Gone if the attempt is over or the provider failed, and with
// Unavailable if the provider does not answer.
func (s *SignOn) Connect(ctx context.Context, who drive.Who, in Return, client netip.Addr) error {
	f, err := s.open(ctx, in, who.User)
	if err != nil {
		return err
	}
	p, err := s.vouched(ctx, in.Code, f, client)
	if err != nil {
		return err
	}
	if !p.mayCome(s.opt) {
		return drive.Fail(drive.Forbidden, "reason", "sign-on-group")
	}
	user, err := s.parts.Users.Find(ctx, s.parts.DB, who.User)
	if err != nil {
		return err
	}
	return usedUp(s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		return s.parts.Users.Connect(ctx, tx, user, f.Epoch, p.identity)
	}))
}

// Disconnect separates a user from the provider, ends the sessions through it and revokes the
// rights it granted. Only administrators may call it, because a user without a password could not
// return; for others it fails with Forbidden. It fails with NotFound for an unknown user, and does
// nothing if the user is not connected.
func (s *SignOn) Disconnect(ctx context.Context, who drive.Who, id drive.UserID) error {
	if !who.Admin {
		return drive.Fail(drive.Forbidden)
	}
	return s.disconnect(ctx, who, id)
}

// DisconnectSelf disconnects the caller, who must confirm with the password. It fails with
// Forbidden {reason: password} or Rate.
func (s *SignOn) DisconnectSelf(ctx context.Context, who drive.Who, password string, client netip.Addr) error {
	if _, err := s.parts.Sessions.Confirm(ctx, who, password, client); err != nil {
		return err
	}
	return s.disconnect(ctx, who, who.User)
}

// disconnect revokes the provider's grants first, so that it can be repeated after a crash. It does
// nothing if the user is not connected.
func (s *SignOn) disconnect(ctx context.Context, who drive.Who, id drive.UserID) error {
	user, err := s.parts.Users.Find(ctx, s.parts.DB, id)
	if err != nil {
		return err
	}
	if is, err := s.IsConnected(ctx, id); err != nil || !is {
		return err
	}
	if _, err := s.follow(ctx, user, person{}); err != nil {
		return err
	}
	return s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		return s.parts.Users.Disconnect(ctx, tx, user, s.opt.Issuer)
	})
}

// IsConnected reports whether a user is connected to an identity of the configured provider.
func (s *SignOn) IsConnected(ctx context.Context, id drive.UserID) (bool, error) {
	return s.parts.Users.IsConnected(ctx, s.parts.DB, id, s.opt.Issuer)
}

// LogOut ends all sessions through the provider of the person in a logout token. It does nothing if
// no user is connected to that person. It fails with BadRequest for an invalid token, with Rate
// after too many invalid tokens from client, and with Unavailable if the provider does not answer.
func (s *SignOn) LogOut(ctx context.Context, token string, client netip.Addr) error {
	known, err := s.provider.get()
	if err != nil {
		return err
	}
	if err := s.parts.Sessions.Refuses(client); err != nil {
		return err
	}
	t, err := known.verifier.VerifyLogout(s.provider.context(ctx), token)
	switch {
	case err != nil && isOfTheKeys(err):
		err = unavailable(brief(err))
	case err != nil:
		s.parts.Sessions.Failed(client)
		err = drive.Wrap(brief(err), drive.BadRequest, "field", "logout_token", "reason", string(drive.Malformed), "expected", "a logout token of the provider for this client")
	case t.Subject == "":
		err = drive.BadField("logout_token", drive.Malformed, "expected", "a token with a subject")
	}
	if err != nil {
		s.opt.Log.Warn("logout by the identity provider refused; the sessions of the user stay open", "error", err)
		return err
	}
	user, err := s.parts.Users.FindByIdentity(ctx, s.parts.DB, account.Identity{Issuer: s.opt.Issuer, Subject: t.Subject})
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.parts.Users.EndVouched(ctx, user)
}
