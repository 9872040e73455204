package rest_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// creations are the requests that take a key, made so that doing one twice would show.
func (u user) creations(t *testing.T) map[string]any {
	t.Helper()
	file := "/nodes/" + u.put(t, "/f", []byte("one"))["id"].(string)
	old := u.get(t, file+"/versions").items(t)[0]["id"].(string)
	u.put(t, "/f", []byte("two"))
	return map[string]any{
		"/uploads":                             map[string]any{"path": "/up", "size": 10},
		"/nodes":                               map[string]any{"path": "/dir", "type": "folder"},
		file + "/copy":                         map[string]any{"parent": "root", "name": "copy"},
		file + "/versions/" + old + "/restore": nil,
	}
}

func TestAKeyMakesACreationHappenOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, boss := s.newUser(t, "ann", 0), s.admin(t)
	check := func(who user, path string, body any) {
		first := who.post(t, path, body, "Idempotency-Key", "k1")
		if first.StatusCode >= 300 || first.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: %s", path, first)
		}
		again := who.post(t, path, body, "Idempotency-Key", `"k1"`)
		if again.StatusCode != first.StatusCode || !bytes.Equal(again.body, first.body) || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s again: %s, first it was %s", path, again, first)
		}
		if got, want := again.Header.Get("Location"), first.Header.Get("Location"); got != want {
			t.Errorf("%s again: Location is %q, first it was %q", path, got, want)
		}
	}
	for path, body := range u.creations(t) {
		check(u, path, body)
	}
	in := map[string]any{"name": "bob", "password": password}
	check(boss, "/admin/users", in)
	in["admin"] = true
	boss.post(t, "/admin/users", in, "Idempotency-Key", "k1").problem(t, drive.KeyReused, nil)
	u.post(t, "/uploads", map[string]any{"path": "/up", "size": 11}, "Idempotency-Key", "k1").problem(t, drive.KeyReused, nil)
	if ups := u.get(t, "/uploads").items(t); len(ups) != 1 {
		t.Errorf("there are %d uploads", len(ups))
	}
	names := []string{}
	for _, n := range u.get(t, "/nodes/root/children").items(t) {
		names = append(names, n["name"].(string))
	}
	if got := strings.Join(names, " "); got != "copy dir f" {
		t.Errorf("there are %s", got)
	}
}

func TestKeyDoesNotStoreRefusal(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 100)
	in := map[string]any{"path": "/x", "size": 101}
	u.post(t, "/uploads", in, "Idempotency-Key", "k").problem(t, drive.Quota, map[string]any{"needed": 101, "available": 100})
	u.admin(t).send(t, "PATCH", "/admin/users/"+u.id, `{"total":null}`).json(t, http.StatusOK)
	u.post(t, "/uploads", in, "Idempotency-Key", "k").json(t, http.StatusCreated)
}

// A user who has deleted files and is over quota all the same gets the reason.
func TestQuotaRefusalReportsOwedBytes(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 100)
	for range 2 {
		n := u.put(t, "/f", make([]byte, 90))
		u.send(t, "DELETE", "/nodes/"+n["id"].(string)+"?permanent=true", nil)
	}
	refused := u.post(t, "/uploads", map[string]any{"path": "/x", "size": 90})
	doc := refused.problem(t, drive.Quota, map[string]any{"needed": 90, "available": 20, "owed": 180})
	if detail := doc["detail"].(string); !strings.Contains(detail, "180B that were deleted are still on the server's disk") {
		t.Errorf("it says %q", detail)
	}
}

func TestConcurrentRepeatsGetOneResponse(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	for path, body := range map[string]any{
		"/uploads": map[string]any{"path": "/x", "size": 1}, "/nodes": map[string]any{"path": "/d", "type": "folder"},
	} {
		answers := make([]response, 8)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = u.post(t, path, body, "Idempotency-Key", "twins") })
		}
		all.Wait()
		for _, got := range answers {
			if got.StatusCode != http.StatusCreated || !bytes.Equal(got.body, answers[0].body) {
				t.Errorf("%s: %s and %s", path, got, answers[0])
			}
		}
	}
}

func TestAPreparedIDIsAKeyForOneCreation(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	prepare := func() string {
		return u.post(t, "/prepare", nil).json(t, http.StatusOK)["pre_id"].(string)
	}
	id, in := prepare(), map[string]any{"path": "/d", "type": "folder"}
	first := u.post(t, "/nodes", in, "Idempotency-Key", id)
	first.json(t, http.StatusCreated)
	if again := u.post(t, "/nodes", in, "Idempotency-Key", id); !bytes.Equal(again.body, first.body) {
		t.Errorf("again: %s", again)
	}
	u.post(t, "/uploads", map[string]any{"path": "/u", "size": 1}, "Idempotency-Key", id).problem(t, drive.KeyReused, nil)
	s.admin(t).post(t, "/nodes", in, "Idempotency-Key", id).problem(t, drive.BadRequest, bad("Idempotency-Key", drive.Malformed))
	late := prepare()
	s.Clock.Advance(12*time.Hour + time.Second)
	u.post(t, "/nodes", in, "Idempotency-Key", late).problem(t, drive.Gone, map[string]any{"reason": "expired"})
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	in := map[string]any{"path": "/d", "type": "folder"}
	for key, reason := range map[string]drive.Reason{
		strings.Repeat("k", 256): drive.TooLong, "käse": drive.Malformed, `"open`: drive.Malformed, "pre_forged": drive.Malformed, "a\tb": drive.Malformed,
	} {
		u.post(t, "/nodes", in, "Idempotency-Key", key).problem(t, drive.BadRequest, bad("Idempotency-Key", reason))
	}
}

// An interval (SOURCES I5) refuses a second creation of a kind, but neither a repeat under its key
// nor what follows a creation that was refused.
func TestCreationIntervalIsEnforced(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{}, func(o *rest.Options) {
		o.Intervals = idem.NewIntervalLimiter(map[string]time.Duration{"POST /nodes": 5 * time.Second}, idem.Options{Now: o.Now})
	})
	u, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	folder := func(path string) map[string]any { return map[string]any{"path": path, "type": "folder"} }
	u.post(t, "/nodes", folder("/no/such/parent")).problem(t, drive.NotFound, nil)
	made := u.post(t, "/nodes", folder("/a"), "Idempotency-Key", "k").json(t, http.StatusCreated)
	u.post(t, "/nodes", folder("/b")).problem(t, drive.Rate, map[string]any{"retry_after": float64(5)})
	if again := u.post(t, "/nodes", folder("/a"), "Idempotency-Key", "k").json(t, http.StatusCreated); again["id"] != made["id"] {
		t.Errorf("%v, first it was %v", again, made)
	}
	u.post(t, "/uploads", map[string]any{"path": "/up", "size": 10}).json(t, http.StatusCreated)
	other.post(t, "/nodes", folder("/b")).json(t, http.StatusCreated)
	s.Clock.Advance(5 * time.Second)
	u.post(t, "/nodes", folder("/b")).json(t, http.StatusCreated)
}

// A creation that repeats a key with other values is refused, and stays in the user's list until it
// is settled (SOURCES I4).
func TestReusedKeyIsListedAsConflict(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	u.post(t, "/nodes", map[string]any{"path": "/a", "type": "folder"}, "Idempotency-Key", "k").json(t, http.StatusCreated)
	for range 2 {
		u.post(t, "/nodes", map[string]any{"path": "/b", "type": "folder"}, "Idempotency-Key", "k").problem(t, drive.KeyReused, nil)
	}
	all := u.get(t, "/key-conflicts").items(t)
	if len(all) != 1 || all[0]["key"] != "k" || all[0]["route"] != "/nodes" || all[0]["times"] != 2.0 || !strings.Contains(all[0]["request"].(string), "/b") {
		t.Fatalf("%v", all)
	}
	if strange := other.get(t, "/key-conflicts").items(t); len(strange) != 0 {
		t.Errorf("bob sees %v", strange)
	}
	one := "/key-conflicts/" + all[0]["id"].(string)
	other.send(t, "DELETE", one, nil).problem(t, drive.NotFound, nil)
	if r := u.send(t, "DELETE", one, nil); r.StatusCode != http.StatusNoContent {
		t.Error(r)
	}
	u.send(t, "DELETE", one, nil).problem(t, drive.NotFound, nil)
}
