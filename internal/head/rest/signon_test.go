package rest_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/testkit/issuertest"
	"example.org/smartdrive/internal/usecase/signon"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// signOnStack is a stack with an identity provider, whose name is Example.
func signOnStack(t *testing.T) (*stack, *issuertest.Issuer) {
	t.Helper()
	issuer := issuertest.New(t)
	s := newStack(t, uploadtest.Options{}, func(o *rest.Options) {
		secret := func(context.Context) ([]byte, error) { return []byte("of all instances"), nil }
		parts := signon.Parts{DB: o.DB, Users: o.Users, Sessions: o.Sessions, Admin: o.Admin, Spaces: o.Spaces, Secret: secret}
		o.SignOn = signon.New(parts, signon.Options{
			Issuer: issuer.URL, Client: issuertest.Client, Secret: issuertest.Secret, Name: "Example", Create: true,
		})
	})
	return s, issuer
}

// away begins a login, follows it to the provider and back, and returns the page's result.
func (s *stack) away(t *testing.T, issuer *issuertest.Issuer, subject string) map[string]any {
	t.Helper()
	return visited(t, issuer, subject, s.do(t, request{method: "POST", path: "/api/v1/sign-on"}).json(t, http.StatusOK))
}

// visited goes to the provider, as that subject.
func visited(t *testing.T, issuer *issuertest.Issuer, subject string, begun map[string]any) map[string]any {
	t.Helper()
	issuer.SetUser(map[string]any{"sub": subject, "preferred_username": subject}, nil)
	at, err := url.Parse(begun["url"].(string))
	if err != nil || at.Query().Get("redirect_uri") != home+"/sign-on" {
		t.Fatalf("the address is %s, %v", at, err)
	}
	back := issuer.Visit(t, at.String())
	return map[string]any{"code": back.Get("code"), "state": back.Get("state"), "iss": back.Get("iss"), "flow": begun["flow"]}
}

func TestSignOn(t *testing.T) {
	t.Parallel()
	s, issuer := signOnStack(t)
	if got := s.do(t, request{method: "GET", path: "/api/v1/sign-on"}).json(t, http.StatusOK)["provider"].(map[string]any); got["name"] != "Example" {
		t.Errorf("the provider is %v", got)
	}
	finish := func(body map[string]any, header map[string]string) response {
		return s.do(t, request{method: "POST", path: "/api/v1/sign-on/finish", body: body, header: header})
	}
	first := finish(s.away(t, issuer, "anna"), nil).json(t, http.StatusCreated)
	anna := user{stack: s, token: first["token"].(string)}
	if me := anna.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any); me["name"] != "anna" {
		t.Errorf("who came in is %v", me)
	}
	if is := anna.get(t, "/me/sign-on").json(t, http.StatusOK); is["connected"] != true {
		t.Errorf("they are %v", is)
	}
	anna.send(t, "PUT", "/files/a", []byte("a")).json(t, http.StatusCreated)

	// A browser gets a cookie, and another site does not log it in.
	body := s.away(t, issuer, "anna")
	body["cookie"] = true
	finish(body, map[string]string{"Origin": "https://elsewhere.example.org"}).problem(t, drive.CrossOrigin, nil)
	got := finish(body, map[string]string{"Origin": home})
	if doc := got.json(t, http.StatusCreated); doc["token"] != nil || len(got.Cookies()) != 1 || !got.Cookies()[0].HttpOnly {
		t.Errorf("the page gets %s, and the cookies %v", got, got.Cookies())
	}

	body = s.away(t, issuer, "anna")
	body["state"] = "x"
	finish(body, nil).problem(t, drive.Gone, map[string]any{"reason": "sign-on"})
	body = s.away(t, issuer, "anna")
	body["code"] = "x"
	finish(body, nil).problem(t, drive.Gone, map[string]any{"reason": "sign-on"})
	body = s.away(t, issuer, "anna")
	issuer.Stop(true)
	got = finish(body, nil) // the code is used up: nothing that is tried again by itself
	got.problem(t, drive.Gone, map[string]any{"reason": "sign-on-failed"})
	issuer.Stop(false)

	logout := func(token string) response {
		return s.do(t, request{method: "POST", path: "/api/v1/sign-on/logout", body: url.Values{"logout_token": {token}}.Encode(), header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}})
	}
	logout("x").problem(t, drive.BadRequest, map[string]any{"field": "logout_token"})
	if got := logout(issuer.LogoutToken("anna", nil)); got.StatusCode != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a logout is answered %s", got)
	}
	anna.get(t, "/me").problem(t, drive.Unauthenticated, nil)
}

func TestAUserIsConnected(t *testing.T) {
	t.Parallel()
	s, issuer := signOnStack(t)
	ben, boss := s.newUser(t, "ben", 0), s.admin(t)
	begin := func(secret string) response {
		return ben.post(t, "/me/sign-on", map[string]any{"password": secret})
	}
	begin("another horse").problem(t, drive.Forbidden, map[string]any{"reason": "password"})
	ben.send(t, "PUT", "/me/sign-on", s.away(t, issuer, "benjamin")).problem(t, drive.Gone, nil) // a login is no connection
	if is := ben.get(t, "/me/sign-on").json(t, http.StatusOK); is["connected"] != false {
		t.Errorf("they are %v", is)
	}
	connect := func() {
		t.Helper()
		if got := ben.send(t, "PUT", "/me/sign-on", visited(t, issuer, "benjamin", begin(password).json(t, http.StatusOK))); got.StatusCode != http.StatusNoContent {
			t.Fatal(got)
		}
	}
	connect()
	come := func() string {
		in := s.do(t, request{method: "POST", path: "/api/v1/sign-on/finish", body: s.away(t, issuer, "benjamin")}).json(t, http.StatusCreated)
		return user{stack: s, token: in["token"].(string)}.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any)["name"].(string)
	}
	if name := come(); name != "ben" {
		t.Errorf("who came in is %s", name)
	}
	ben.post(t, "/me/sign-on/end", map[string]any{"password": "another horse"}).problem(t, drive.Forbidden, map[string]any{"reason": "password"})
	if got := ben.post(t, "/me/sign-on/end", map[string]any{"password": password}); got.StatusCode != http.StatusNoContent {
		t.Fatal(got)
	}
	if is := ben.get(t, "/me/sign-on").json(t, http.StatusOK); is["connected"] != false {
		t.Errorf("after the end they are %v", is)
	}
	s.Clock.Advance(time.Minute) // a click is not the one before
	connect()
	at := "/admin/users/" + ben.id + "/sign-on"
	ben.send(t, "DELETE", at, nil).problem(t, drive.Forbidden, nil)
	if got := boss.send(t, "DELETE", at, nil); got.StatusCode != http.StatusNoContent {
		t.Fatal(got)
	}
	if name := come(); name != "benjamin" {
		t.Errorf("after that, who came in is %s", name)
	}
	var told []string
	for _, h := range boss.get(t, "/admin/users/"+ben.id+"/activity?type=identity").items(t) {
		told = append(told, h["type"].(string)+" by "+h["by"].(map[string]any)["name"].(string))
	}
	if want := []string{"identity.ended by admin", "identity.connected by ben", "identity.ended by ben", "identity.connected by ben"}; !slices.Equal(told, want) {
		t.Errorf("the activity is %q, want %q", told, want)
	}
}

func TestWithoutAProvider(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	if got := s.do(t, request{method: "GET", path: "/api/v1/sign-on"}).json(t, http.StatusOK); got["provider"] != nil {
		t.Errorf("the provider is %v", got)
	}
	s.do(t, request{method: "POST", path: "/api/v1/sign-on"}).problem(t, drive.NotFound, nil)
	body := map[string]any{"code": "x", "state": "x", "flow": "x"}
	s.do(t, request{method: "POST", path: "/api/v1/sign-on/finish", body: body}).problem(t, drive.NotFound, nil)
}
