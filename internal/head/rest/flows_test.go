package rest_test

import (
	"net/http"
	"net/netip"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func TestHeadsLimitTokens(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	in := map[string]any{"name": "phone", "scopes": []string{"read"}, "heads": []string{"nextcloud", "dav"}}
	phone := user{stack: s, token: u.post(t, "/tokens", in).json(t, http.StatusCreated)["token"].(string)}
	phone.get(t, "/me").problem(t, drive.Forbidden, map[string]any{"reason": "head"})
	in["heads"] = []string{"nextcloud", "native"}
	both := user{stack: s, token: u.post(t, "/tokens", in).json(t, http.StatusCreated)["token"].(string)}
	both.get(t, "/me").json(t, http.StatusOK)
	in["heads"] = []string{"gopher"}
	u.post(t, "/tokens", in).problem(t, drive.BadRequest, map[string]any{"field": "heads"})
	shown := u.get(t, "/tokens").items(t)
	if len(shown) != 2 || len(shown[0]["heads"].([]any)) != 2 {
		t.Errorf("%v", shown)
	}
}

func TestAFlowIsGrantedOnItsPage(t *testing.T) {
	t.Parallel()
	var logins *account.Sessions
	s := newStack(t, uploadtest.Options{}, func(o *rest.Options) { logins = o.Sessions })
	u := s.newUser(t, "ann", 0)
	poll, page := logins.BeginFlow("mirall/3.7.3")
	if got := u.get(t, "/flows/"+page).json(t, http.StatusOK)["agent"]; got != "mirall/3.7.3" {
		t.Errorf("the page says %v", got)
	}
	u.get(t, "/flows/x").problem(t, drive.NotFound, nil)
	for range 2 {
		if got := u.post(t, "/flows/"+page, map[string]any{"name": "laptop"}); got.StatusCode != http.StatusNoContent {
			t.Fatalf("%d", got.StatusCode)
		}
	}
	g, name, err := logins.PollFlow(t.Context(), poll)
	if err != nil || name != "ann" || g.Name != "laptop" {
		t.Fatalf("%q, %+v, %v", name, g, err)
	}
	in := account.Basic{Name: "ann", Password: g.Secret, Head: drive.HeadNextcloud, Client: netip.MustParseAddr("192.0.2.1")}
	if _, err := logins.Basic(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	device := user{stack: s, token: g.Secret}
	device.post(t, "/flows/"+page, map[string]any{}).problem(t, drive.Forbidden, nil)
}
