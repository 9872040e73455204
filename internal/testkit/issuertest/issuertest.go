// Package issuertest is an identity provider for tests: OpenID Connect Core 1.0 with the code flow
// and PKCE (RFC 7636), by HTTP. Whoever comes to it is logged in as the person that it was told.
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

// The client that the provider knows.
const (
	Client = "smartdrive"
	Secret = "a secret of the client"
)

// Issuer is a provider. Its fields may be changed between requests.
type Issuer struct {
	URL string

	mu     sync.Mutex
	claims map[string]any // of the ID token
	info   map[string]any // of the userinfo endpoint
	down   bool
	method string // by which alone clients say who they are; empty: any
	alone  bool   // there is no userinfo endpoint
	asked  int    // tokens that were asked for
	key    *rsa.PrivateKey
	name   string // of the key
	codes  map[string]grant
	tokens map[string]map[string]any // access tokens: what the userinfo endpoint says
}

// grant is what a code was given for.
type grant struct {
	challenge, redirect, nonce string
	claims, info               map[string]any
}

// New starts a provider that ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{codes: map[string]grant{}, tokens: map[string]map[string]any{}}
	i.Rotate(t)
	srv := httptest.NewServer(i)
	t.Cleanup(srv.Close)
	i.URL = srv.URL
	return i
}

// Rotate makes the provider sign with another key.
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

// Be says who comes next: the claims of the ID token, and what the userinfo endpoint says beside
// "sub". Members that a token has by itself (iss, aud, exp, iat, nonce) may be given, too.
func (i *Issuer) Be(claims, info map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.claims, i.info = maps.Clone(claims), map[string]any{"sub": claims["sub"]}
	maps.Copy(i.info, info)
}

// Stop makes the provider answer 503 to everything, or no longer.
func (i *Issuer) Stop(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// Only makes the provider take a client's secret in one way alone, such as client_secret_post.
func (i *Issuer) Only(method string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.method = method
}

// WithoutUserInfo takes the userinfo endpoint away.
func (i *Issuer) WithoutUserInfo() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.alone = true
}

// Asked is how often a token was asked for.
func (i *Issuer) Asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// Visit goes to an address of Begin, as a browser does, and returns what the page gets back.
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

// LogoutToken is what the provider sends to end the logins of a subject (OpenID Connect
// Back-Channel Logout 1.0 §2.4); with changes.
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
		panic(err) // a test's own claims
	}
	return oidctest.SignIDToken(i.key, i.name, "RS256", string(b))
}

// ServeHTTP is the provider.
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
	if i.method != "" {
		d["token_endpoint_auth_methods_supported"] = []string{i.method}
	}
	if i.alone {
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
	i.asked++
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	} else {
		secret, _ = url.QueryUnescape(secret) // RFC 6749 §2.3.1
	}
	if id != Client || secret != Secret || i.method != "" && basic != (i.method == "client_secret_basic") {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	g, ok := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code")) // it is good once
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
