// Package issuertest is an identity provider for tests: OpenID Connect Core 1.0 with the code flow
// and PKCE (RFC 7636) over HTTP. It logs every visitor in as the person set by SetUser.
package issuertest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// The registered client.
const (
	Client = "smartdrive"
	Secret = "a secret of the client"
)

// Issuer is an identity provider. Its methods may be called between requests.
type Issuer struct {
	URL string

	mu            sync.Mutex
	claims        map[string]any // claims of the ID token
	info          map[string]any // response of the userinfo endpoint
	down          bool
	authMethod    string // the only accepted client authentication; empty: any
	noUserInfo    bool   // there is no userinfo endpoint
	tokenRequests int    // number of token requests
	key           *rsa.PrivateKey
	name          string // id of the key
	codes         map[string]grant
	tokens        map[string]map[string]any // userinfo by access token
}

// grant is the authorization that a code stands for.
type grant struct {
	challenge, redirect, nonce string
	claims, info               map[string]any
}

// New starts a provider that stops at the end of the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{codes: map[string]grant{}, tokens: map[string]map[string]any{}}
	i.Rotate(t)
	srv := httptest.NewServer(i)
	t.Cleanup(srv.Close)
	i.URL = srv.URL
	return i
}

// Rotate replaces the signing key.
func (i *Issuer) Rotate(t testing.TB) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.name = key, rand.Text()
}

// SetUser sets the next user: the claims of the ID token, and the userinfo besides "sub". claims
// may override the token's own members (iss, aud, exp, iat, nonce).
func (i *Issuer) SetUser(claims, info map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.claims, i.info = maps.Clone(claims), map[string]any{"sub": claims["sub"]}
	maps.Copy(i.info, info)
}

// Stop makes the provider answer 503 to everything, or ends that.
func (i *Issuer) Stop(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// RequireAuthMethod restricts client authentication to one method, such as client_secret_post.
func (i *Issuer) RequireAuthMethod(method string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.authMethod = method
}

// WithoutUserInfo removes the userinfo endpoint.
func (i *Issuer) WithoutUserInfo() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.noUserInfo = true
}

// Asked returns the number of token requests.
func (i *Issuer) Asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.tokenRequests
}

// Visit opens a URL of Begin like a browser, and returns the query of the redirect back.
func (i *Issuer) Visit(t testing.TB, address string) url.Values {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		t.Fatalf("%s: %s, %v", address, resp.Status, err)
	}
	return to.Query()
}

// LogoutToken returns a token that ends the logins of a subject (OpenID Connect Back-Channel Logout
// 1.0 §2.4). changes overrides its claims.
func (i *Issuer) LogoutToken(subject string, changes map[string]any) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sign(map[string]any{
		"sub": subject, "jti": rand.Text(), "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}, changes)
}

func (i *Issuer) sign(claims ...map[string]any) string {
	now := time.Now()
	all := map[string]any{"iss": i.URL, "aud": Client, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
	for _, c := range claims {
		maps.Copy(all, c)
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // a test passed invalid claims
	}
	return oidctest.SignIDToken(i.key, i.name, "RS256", string(b))
}

// ServeHTTP implements the provider's endpoints.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	switch r.URL.Path {
	case "/authorize":
		i.authorize(w, r)
	case "/token":
		i.token(w, r)
	case "/userinfo":
		info, ok := i.tokens[r.Header.Get("Authorization")]
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer(w, http.StatusOK, info)
	case "/.well-known/openid-configuration":
		answer(w, http.StatusOK, i.description())
	default:
		(&oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: i.key.Public(), KeyID: i.name, Algorithm: "RS256"}}}).ServeHTTP(w, r)
	}
}

func (i *Issuer) description() map[string]any {
	d := map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"userinfo_endpoint": i.URL + "/userinfo", "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
	}
	if i.authMethod != "" {
		d["token_endpoint_auth_methods_supported"] = []string{i.authMethod}
	}
	if i.noUserInfo {
		delete(d, "userinfo_endpoint")
	}
	return d
}

func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != Client || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("redirect_uri") == "" {
		http.Error(w, "not a request of the code flow: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	code := rand.Text()
	i.codes[code] = grant{q.Get("code_challenge"), q.Get("redirect_uri"), q.Get("nonce"), i.claims, i.info}
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.URL}}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound) //nolint:gosec // a provider of tests
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	i.tokenRequests++
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	} else {
		secret, _ = url.QueryUnescape(secret) // RFC 6749 §2.3.1
	}
	if id != Client || secret != Secret || i.authMethod != "" && basic != (i.authMethod == "client_secret_basic") {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	g, ok := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code")) // a code is valid once
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || g.redirect != r.PostFormValue("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	access := rand.Text()
	i.tokens["Bearer "+access] = g.info
	answer(w, http.StatusOK, map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": 60, "id_token": i.sign(map[string]any{"nonce": g.nonce}, g.claims),
	})
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
