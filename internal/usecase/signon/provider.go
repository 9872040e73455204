package signon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"smartdrive/internal/base/drive"
)

const (
	answerWithin = 10 * time.Second // of one request to the provider
	askAgain     = time.Hour        // after it the description of the provider is read again
	tryAgain     = time.Minute      // and after it, where that has failed
	breath       = 3 * time.Second  // and after it, where it was never read
	maxSubject   = 255              // bytes (OpenID Connect Core 1.0 §2)
	maxAnswer    = 1 << 20          // bytes
	skew         = 2 * time.Minute  // that the provider's clock may be behind ours
)

// provider is the other side; its description is read when it is first needed, and again each hour.
type provider struct {
	opt    Options
	client *http.Client
	flight singleflight.Group

	mu    sync.Mutex
	known *known    // nil: its description was not read yet
	tried time.Time // when it could not be read
}

// known is a provider whose description was read.
type known struct {
	*oidc.Provider
	opt      Options
	endpoint oauth2.Endpoint
	verifier *oidc.IDTokenVerifier
	context  func(context.Context) context.Context
	at       time.Time
}

func newProvider(opt Options) *provider {
	transport := opt.Transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.DisableKeepAlives = true // a code is good once: a request must not meet a connection that the provider is about to close
		transport = own
	}
	return &provider{opt: opt, client: &http.Client{Transport: bounded{transport}, Timeout: answerWithin, CheckRedirect: onlyReading}}
}

// onlyReading follows no redirect of what has a secret in its body.
func onlyReading(_ *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet || len(via) > 5 {
		return http.ErrUseLastResponse
	}
	return nil
}

// bounded sends requests whose answers have an end.
type bounded struct{ to http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.to.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// context makes the libraries send by our client.
func (p *provider) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

// get returns the provider. One whose description cannot be read again is taken as it was, and is
// left alone for a while.
func (p *provider) get() (*known, error) {
	now := p.opt.Now()
	p.mu.Lock()
	have, tried := p.known, p.tried
	p.mu.Unlock()
	if have != nil && (now.Sub(have.at).Abs() < askAgain || now.Sub(tried).Abs() < tryAgain) {
		return have, nil
	}
	if have == nil && now.Sub(tried).Abs() < breath {
		return nil, unavailable(errors.New("it did not answer a moment ago"))
	}
	got, err, _ := p.flight.Do("", func() (any, error) { return p.read(now) })
	switch {
	case err == nil:
		return got.(*known), nil
	case have != nil:
		return have, nil
	}
	return nil, unavailable(err)
}

// read reads the description. It serves all who wait for it: the client's time-out ends it, and no
// request of theirs.
func (p *provider) read(now time.Time) (*known, error) {
	ctx := p.context(context.Background())
	fresh, err := describe(ctx, p, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.tried = now
		p.opt.Log.Warn("the identity provider cannot be asked", "issuer", p.opt.Issuer, "error", brief(err))
		return nil, brief(err)
	}
	p.known = fresh
	return fresh, nil
}

func describe(ctx context.Context, p *provider, now time.Time) (*known, error) {
	read, err := oidc.NewProvider(ctx, p.opt.Issuer)
	if err != nil {
		return nil, err
	}
	var more struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := read.Claims(&more); err != nil {
		return nil, err
	}
	k := &known{Provider: read, opt: p.opt, context: p.context, at: now, endpoint: read.Endpoint()}
	for _, address := range []string{k.endpoint.AuthURL, k.endpoint.TokenURL, read.UserInfoEndpoint(), more.Keys} {
		if address != "" && strings.HasPrefix(p.opt.Issuer, "https:") && !strings.HasPrefix(address, "https:") {
			return nil, fmt.Errorf("an endpoint is not https: %s", address)
		}
	}
	k.endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if p.opt.Secret == "" || len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		k.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	k.verifier = read.VerifierContext(ctx, &oidc.Config{
		ClientID: p.opt.Client, Now: func() time.Time { return p.opt.Now().Add(-skew) },
	})
	return k, nil
}

// unavailable asks for patience that nobody has at a login: whoever waits is told at once.
func unavailable(err error) error {
	return drive.Wrap(err, drive.Unavailable, "reason", "sign-on", "retry_after", int(tryAgain.Seconds()))
}

// client is what we are to the provider.
func (k *known) client(redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: k.opt.Client, ClientSecret: k.opt.Secret, Endpoint: k.endpoint, RedirectURL: redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, k.opt.Scopes...),
	}
}

// claims returns what the provider says of the person whose code it is: in the ID token, which
// counts where both say something, and at the userinfo endpoint.
func (k *known) claims(ctx context.Context, code string, f flow) (map[string]any, error) {
	ctx = k.context(ctx)
	token, err := k.client(f.Redirect).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && isOfTheCode(refused) {
		k.opt.Log.Info("the identity provider does not take a code", "issuer", k.opt.Issuer, "error", brief(err))
		return nil, over(brief(err))
	}
	if err != nil {
		return nil, k.failed("a token for a code", err)
	}
	raw, _ := token.Extra("id_token").(string)
	vouched, err := k.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, k.unusable("an ID token that can be believed", err)
	}
	said := map[string]any{}
	if err := vouched.Claims(&said); err != nil {
		return nil, k.unusable("an ID token that can be read", err)
	}
	party, _ := said["azp"].(string)
	switch {
	case vouched.Nonce != f.Nonce:
		return nil, over(errors.New("the nonce is of another flow"))
	case vouched.Subject == "", len(vouched.Subject) > maxSubject:
		return nil, k.unusable("an ID token for this client", errors.New("it has no possible subject"))
	case party != "" && party != k.opt.Client, party == "" && len(vouched.Audience) > 1: // OpenID Connect Core 1.0 §3.1.3.7
		return nil, k.unusable("an ID token for this client", errors.New("it is for several clients or another one, and does not name this one as the authorized party"))
	}
	if k.UserInfoEndpoint() != "" {
		info, err := k.UserInfo(ctx, oauth2.StaticTokenSource(token))
		more := map[string]any{}
		if err == nil && info.Subject != vouched.Subject { // OpenID Connect Core 1.0 §5.3.2
			err = errors.New("it is about another subject")
		}
		if err == nil {
			err = info.Claims(&more)
		}
		if err != nil {
			return nil, k.failed("what it says at its userinfo endpoint", err)
		}
		said = merged(said, more)
	}
	return said, k.complete(said)
}

// isOfTheCode reports whether a refusal is about what the page has sent, and not about us (RFC 6749
// §5.2): providers call a code that is none by several names.
func isOfTheCode(refused *oauth2.RetrieveError) bool {
	status := refused.Response.StatusCode
	return status >= 400 && status < 500 && !slices.Contains([]string{"", "invalid_client", "unauthorized_client"}, refused.ErrorCode)
}

// merged is what was said, and more where that said nothing.
func merged(said, more map[string]any) map[string]any {
	for name, value := range more {
		if list, ok := said[name].([]any); said[name] == nil || ok && len(list) == 0 {
			said[name] = value
		}
	}
	return said
}

// complete refuses what leaves the groups out, where they decide: a provider that says that they
// are to be asked for elsewhere (OpenID Connect Core 1.0 §5.6.2), as Entra ID does of many.
func (k *known) complete(said map[string]any) error {
	if len(k.opt.Users)+len(k.opt.Admins)+len(k.opt.Groups) == 0 {
		return nil
	}
	claim := k.opt.GroupsClaim
	if _, ok := said[claim]; !ok {
		claim, _, _ = strings.Cut(claim, ".")
	}
	elsewhere, _ := said["_claim_names"].(map[string]any)
	if _, ok := elsewhere[claim]; ok {
		return k.failed("the groups themselves", errors.New("it says that they are to be asked for elsewhere, as there are too many"))
	}
	if _, ok := said[claim]; !ok {
		k.opt.Log.Warn("the identity provider says nothing of groups, which counts as none: it may want a scope, or another name of the claim", "claim", k.opt.GroupsClaim)
	}
	return nil
}

// failed is told to the operator: nobody who logs in can repair it. The code is used up.
func (k *known) failed(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err // who wanted to log in has gone away
	}
	k.opt.Log.Warn("the identity provider has not done its part of a login", "part", what, "issuer", k.opt.Issuer, "error", brief(err))
	return drive.Wrap(brief(err), drive.Gone, "reason", "sign-on-failed")
}

// errToken marks a login that failed because of its ID token.
var errToken = errors.New("the ID token cannot be used")

// unusable is failed because of an ID token: it counts as a failed login, unless the keys of the
// provider could not be read.
func (k *known) unusable(what string, err error) error {
	failed := k.failed(what, err)
	if isOfTheKeys(err) {
		return failed
	}
	return fmt.Errorf("%w: %w", errToken, failed)
}

// isOfTheKeys reports whether go-oidc could not read the keys of the provider, for which it has no
// error of its own.
func isOfTheKeys(err error) bool { return strings.Contains(err.Error(), "fetching keys") }

// brief is an error without the pages that providers answer with.
func brief(err error) error {
	const most = 300 // bytes
	text := err.Error()
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		text = fmt.Sprintf("%s %s %s", refused.Response.Status, refused.ErrorCode, refused.ErrorDescription)
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return errors.New(text)
}
