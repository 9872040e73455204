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

	"example.org/smartdrive/internal/base/drive"
)

const (
	answerWithin = 10 * time.Second // timeout of one request to the provider
	askAgain     = time.Hour        // the provider's metadata is read again after this
	tryAgain     = time.Minute      // retry delay after a failed read, if older metadata exists
	breath       = 3 * time.Second  // retry delay after a failed read, if none exists
	maxSubject   = 255              // bytes (OpenID Connect Core 1.0 §2)
	maxAnswer    = 1 << 20          // bytes
	skew         = 2 * time.Minute  // how far the provider's clock may be behind ours
)

// provider caches the metadata of the identity provider. It is read on first use and then every
// hour.
type provider struct {
	opt    Options
	client *http.Client
	flight singleflight.Group

	mu    sync.Mutex
	known *known    // last metadata read; nil: none yet
	tried time.Time // time of the last failed read
}

// known is the provider with its metadata.
type known struct {
	*oidc.Provider
	opt      Options
	endpoint oauth2.Endpoint
	verifier *oidc.IDTokenVerifier
	// context makes the libraries use our HTTP client.
	context func(context.Context) context.Context
	// at is when the metadata was read.
	at time.Time
}

// newProvider returns a provider whose metadata is not read yet. It does no I/O.
func newProvider(opt Options) *provider {
	transport := opt.Transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.DisableKeepAlives = true // codes are single-use, so a request that dies on a closing connection cannot be retried
		transport = own
	}
	return &provider{opt: opt, client: &http.Client{Transport: bounded{transport}, Timeout: answerWithin, CheckRedirect: onlyReading}}
}

// onlyReading is a redirect policy: it follows up to 5 redirects of GET, and none of other methods,
// whose body contains secrets.
func onlyReading(_ *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet || len(via) > 5 {
		return http.ErrUseLastResponse
	}
	return nil
}

// bounded is a transport that truncates responses after maxAnswer bytes.
type bounded struct{ to http.RoundTripper }

// RoundTrip sends r. It cuts the body of the response off after maxAnswer bytes, without an error.
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

// context returns ctx with this provider's HTTP client, which the OpenID libraries then use.
func (p *provider) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

// get returns the provider. If the metadata cannot be read again, it returns the old metadata and
// does not retry for tryAgain. Without any metadata it fails with Unavailable.
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

// read reads the metadata. Concurrent callers share one read, so it ignores their contexts; the
// HTTP client's timeout bounds it.
func (p *provider) read(now time.Time) (*known, error) {
	ctx := p.context(context.Background())
	fresh, err := describe(ctx, p, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.tried = now
		p.opt.Log.Warn("the metadata of the identity provider could not be read", "issuer", p.opt.Issuer, "error", brief(err))
		return nil, brief(err)
	}
	p.known = fresh
	return fresh, nil
}

// describe reads the metadata of the provider over the network. It fails if that is invalid and,
// with an https issuer, if an endpoint is not https.
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

// unavailable returns Unavailable {reason: sign-on, retry_after} that wraps err: the provider does
// not answer.
func unavailable(err error) error {
	return drive.Wrap(err, drive.Unavailable, "reason", "sign-on", "retry_after", int(tryAgain.Seconds()))
}

// client returns the OAuth 2.0 client of this installation for the address to which the provider
// redirects.
func (k *known) client(redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: k.opt.Client, ClientSecret: k.opt.Secret, Endpoint: k.endpoint, RedirectURL: redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, k.opt.Scopes...),
	}
}

// claims redeems a code and returns the claims of the ID token, merged with those of the userinfo
// endpoint; the ID token takes precedence. It fails with Gone: reason sign-on if the provider
// rejects the code or the nonce is wrong, else sign-on-failed. The error wraps errToken if the ID
// token is invalid.
func (k *known) claims(ctx context.Context, code string, f flow) (map[string]any, error) {
	ctx = k.context(ctx)
	token, err := k.client(f.Redirect).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && isOfTheCode(refused) {
		k.opt.Log.Info("the identity provider does not take a code", "issuer", k.opt.Issuer, "error", brief(err))
		return nil, over(brief(err))
	}
	if err != nil {
		return nil, k.failed("code exchange", err)
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
			return nil, k.failed("userinfo", err)
		}
		said = merged(said, more)
	}
	return said, k.complete(said)
}

// isOfTheCode reports whether the provider rejected the code, not our client (RFC 6749 §5.2).
// Providers use several error codes for a bad code.
func isOfTheCode(refused *oauth2.RetrieveError) bool {
	status := refused.Response.StatusCode
	return status >= 400 && status < 500 && !slices.Contains([]string{"", "invalid_client", "unauthorized_client"}, refused.ErrorCode)
}

// merged adds to said the claims of more that said lacks or has empty, and returns said.
func merged(said, more map[string]any) map[string]any {
	for name, value := range more {
		if list, ok := said[name].([]any); said[name] == nil || ok && len(list) == 0 {
			said[name] = value
		}
	}
	return said
}

// complete fails if groups matter and the provider refers to another endpoint for them (OpenID
// Connect Core 1.0 §5.6.2), as Entra ID does for large numbers. A missing claim counts as no
// groups.
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
		return k.failed("groups", errors.New("it refers to another endpoint for them, as for users in too many groups"))
	}
	if _, ok := said[claim]; !ok {
		k.opt.Log.Warn("the identity provider sent no groups claim, which counts as no groups; check --oidc-scopes and --oidc-groups-claim", "claim", k.opt.GroupsClaim)
	}
	return nil
}

// failed logs a failure of the provider for the operator and returns Gone {reason: sign-on-failed}:
// the code is used up. A cancelled request is not logged, and err is returned as it is.
func (k *known) failed(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err // the client has left
	}
	k.opt.Log.Warn("sign-in failed at the identity provider", "part", what, "issuer", k.opt.Issuer, "error", brief(err))
	return drive.Wrap(brief(err), drive.Gone, "reason", "sign-on-failed")
}

// errToken reports that a sign-in failed because of its ID token.
var errToken = errors.New("the ID token cannot be used")

// unusable logs an invalid ID token and returns Gone {reason: sign-on-failed}. The error wraps
// errToken, so that it counts as a failed sign-in, unless the provider's keys could not be read.
func (k *known) unusable(what string, err error) error {
	failed := k.failed(what, err)
	if isOfTheKeys(err) {
		return failed
	}
	return fmt.Errorf("%w: %w", errToken, failed)
}

// isOfTheKeys reports whether go-oidc failed to fetch the provider's keys. go-oidc has no error
// value for it.
func isOfTheKeys(err error) bool { return strings.Contains(err.Error(), "fetching keys") }

// brief shortens an error to 300 bytes and drops the HTML pages that providers answer with.
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
