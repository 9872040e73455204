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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/admin"
	"smartdrive/internal/usecase/space"
)

// Options say which provider it is and what its word is good for. Those without a default may be
// empty, all but Issuer and Client.
type Options struct {
	Issuer string // URL; the provider's description is below it
	Client string // our id there
	Secret string // empty: we are a public client
	Name   string // for people
	Scopes []string

	GroupsClaim string   // where the groups are; "a.b": b in a; empty: nowhere
	Users       []string // groups whose members may come in; empty: all
	Admins      []string // groups whose members are administrators; empty: the provider says nothing of it
	Groups      []string // groups of ours that have the members of those of the same name; "*": all that there are
	Create      bool     // who is not known gets a user

	// Life is how long a login is good. Default: a week.
	Life time.Duration
	// Transport sends the requests to the provider. Default: as http.DefaultTransport does, by a
	// connection each.
	Transport http.RoundTripper
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives what people cannot repair. Default: slog.Default.
	Log *slog.Logger
}

// Parts are what the package stands on.
type Parts struct {
	DB       *sqldb.DB
	Users    *account.Users
	Sessions *account.Sessions
	Admin    *admin.Admin
	Spaces   *space.Spaces
	// Secret seals flows; all instances have the same.
	Secret func(ctx context.Context) ([]byte, error)
}

// SignOn is one provider. It is safe for concurrent use.
type SignOn struct {
	parts    Parts
	opt      Options
	provider *provider
}

// New returns the sign-on by a provider, which need not answer yet.
func New(parts Parts, opt Options) *SignOn {
	opt.Life = cmp.Or(opt.Life, 7*24*time.Hour)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	return &SignOn{parts, opt, newProvider(opt)}
}

// Name is what people know the provider by.
func (s *SignOn) Name() string { return s.opt.Name }

const flowLife = time.Hour // from Begin to Finish: somebody may have to look for their second factor

// flow is what belongs to one try.
type flow struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Redirect string `json:"r"`
	Begun    int64  `json:"t"` // Unix seconds

	// To connect a user: who they are, and by which of their passwords they were known.
	User  drive.UserID `json:"u,omitzero"`
	Epoch int64        `json:"e,omitempty"`
}

// Begun is a try: the page goes to URL, and keeps the flow for its end.
type Begun struct {
	URL  string
	Flow string
}

// Begin begins a login whose page is at redirect. Unavailable {reason: sign-on}: the provider does
// not answer.
func (s *SignOn) Begin(ctx context.Context, redirect string) (Begun, error) {
	return s.begin(ctx, flow{Redirect: redirect})
}

// BeginConnect begins to connect the caller with a person at the provider. It takes the password,
// as a change of it does: whoever finds an open page must not stay in for good. Forbidden {reason:
// password}; Rate; the errors of Begin.
func (s *SignOn) BeginConnect(ctx context.Context, who drive.Who, password string, client netip.Addr, redirect string) (Begun, error) {
	epoch, err := s.parts.Sessions.Confirm(ctx, who, password, client)
	if err != nil {
		return Begun{}, err
	}
	return s.begin(ctx, flow{Redirect: redirect, User: who.User, Epoch: epoch}, oauth2.SetAuthURLParam("prompt", "login")) // whom it connects is to be seen
}

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

// seal writes a flow so that only we can have made it.
func (s *SignOn) seal(ctx context.Context, f flow) (string, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("write a flow: %w", err)
	}
	sum, err := s.sum(ctx, b)
	return base64.RawURLEncoding.EncodeToString(append(sum, b...)), err
}

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

// Return is what the page has come back with.
type Return struct {
	Code   string
	State  string
	Issuer string // "iss" of RFC 9207; empty: the provider does not send it
	Flow   string // of Begin
}

// open returns the flow, if what came back is the end of it, for that user. Gone {reason: sign-on}:
// it is not.
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
	case age > flowLife, age < -flowLife: // instances' clocks differ
		return flow{}, over(errors.New("too late"))
	}
	return f, nil
}

// over is the error of a try that cannot be ended.
func over(err error) error { return drive.Wrap(err, drive.Gone, "reason", "sign-on") }

// Finish logs in whom the provider vouches for; from says where they come from and what they use. A
// code is good once: whatever comes of it, nobody should send it again.
//
//	Gone {reason}         sign-on: the flow is over, or another one's; sign-on-failed: the provider has not done its part
//	Unavailable           {reason: sign-on}: the provider does not answer, and the code was not sent to it
//	Forbidden {reason}    sign-on-group: in none of the groups; sign-on-unknown: there is no such user here; sign-on-taken: there
//	                      is one of that name, who is not connected; sign-on-disabled: there is, and they may not log in
//	Rate {retry_after}    too much that came from there was no login
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

// enter logs in a person.
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

// usedUp is an error after the code was sent: nobody should send it again, as people's programs do
// by themselves with what is told to pass.
func usedUp(err error) error {
	if drive.IsKind(err, drive.Unavailable, drive.Rate, drive.Stopping) {
		return drive.Wrap(err, drive.Gone, "reason", "sign-on-failed")
	}
	return err
}

const maxCode = 8 << 10 // bytes

// vouched returns the person that the provider vouches for. A code that it does not know counts as
// a wrong password does, so that nobody makes us ask the provider without end; what the provider
// fails in does not, as passwords are what people log in by then.
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

// Connect ends what BeginConnect began. WrongState {state: connected}: one of the two is connected
// already. Gone and Unavailable as of Finish.
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

// Disconnect ends that a user is somebody at the provider, their logins by it, and what they are
// because it says so. It is for administrators: somebody without a password could not come back.
func (s *SignOn) Disconnect(ctx context.Context, who drive.Who, id drive.UserID) error {
	if !who.Admin {
		return drive.Fail(drive.Forbidden)
	}
	return s.disconnect(ctx, who, id)
}

// DisconnectSelf is Disconnect for oneself, by the password. Forbidden {reason: password}; Rate.
func (s *SignOn) DisconnectSelf(ctx context.Context, who drive.Who, password string, client netip.Addr) error {
	if _, err := s.parts.Sessions.Confirm(ctx, who, password, client); err != nil {
		return err
	}
	return s.disconnect(ctx, who, who.User)
}

// disconnect takes first what the provider has given: whoever dies in between does it again.
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

// IsConnected reports whether a user can log in by the provider.
func (s *SignOn) IsConnected(ctx context.Context, id drive.UserID) (bool, error) {
	return s.parts.Users.IsConnected(ctx, s.parts.DB, id, s.opt.Issuer)
}

// LogOut ends the logins of the person that a logout token of the provider names, all that it has
// vouched for. BadRequest: it is none. Rate: too many from there were none.
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
		s.opt.Log.Warn("a logout by the identity provider is not taken", "error", err)
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
