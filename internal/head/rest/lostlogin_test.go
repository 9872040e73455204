package rest_test

import (
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// A login exists and is logged although the reply to its COMMIT was lost. A user who repeats it has
// two logins and two entries. Failed logins, which are combined, are then logged again: too often
// rather than never.
func TestLoginIsLoggedIfResponseIsLost(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	var sessions *account.Sessions
	s := newStack(t, uploadtest.Options{DB: sqldb.Options{Connector: faults.Connector, Log: slog.New(slog.DiscardHandler)}}, func(o *rest.Options) { sessions = o.Sessions })
	ann := s.newUser(t, "ann", 0)
	logIn := func(password string) int {
		return s.do(t, request{method: "POST", path: "/api/v1/sessions", body: map[string]string{"name": "ann", "password": password}}).StatusCode
	}
	faults.LoseReply(sqldbtest.Commit, 1, nil)
	if got := logIn(password); got != http.StatusServiceUnavailable {
		t.Errorf("a login of which nobody knows whether it was written is answered with %d", got)
	}
	if faults.Clear() != 0 {
		t.Fatal("no reply was lost")
	}
	if got := logIn(password); got != http.StatusCreated {
		t.Fatalf("once more: %d", got)
	}
	var told, there []string
	for _, it := range ann.get(t, "/activity?type=login.created").items(t) {
		told = append(told, it["data"].(map[string]any)["session"].(string))
	}
	for _, it := range ann.get(t, "/sessions").items(t) {
		there = append(there, it["id"].(string))
	}
	slices.Sort(told)
	slices.Sort(there)
	if d := cmp.Diff(there, told); d != "" || len(there) != 3 {
		t.Errorf("there are %d logins, and not the same are told: %s", len(there), d)
	}

	for range 3 {
		logIn("wrong")
	}
	faults.LoseReply(sqldbtest.Commit, 1, nil)
	if sessions.TellGathered(t.Context()) == nil {
		t.Error("failed logins of which nobody knows whether they were written count as written")
	}
	faults.Clear()
	for range 2 {
		if err := sessions.TellGathered(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var times []float64
	for _, it := range ann.get(t, "/activity?type=login.failed").items(t) {
		times = append(times, it["data"].(map[string]any)["times"].(float64))
	}
	if d := cmp.Diff([]float64{3, 3}, times); d != "" {
		t.Errorf("three failed logins, told twice because of a reply that was lost: %s", d)
	}
}
