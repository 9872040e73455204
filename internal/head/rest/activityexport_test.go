package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// exported returns the entries of an export.
func (r response) exported(t testing.TB) (all []map[string]any) {
	t.Helper()
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("the export answers %s", r)
	}
	return entriesOf(t, r.body)
}

func entriesOf(t testing.TB, lines []byte) (all []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var it map[string]any
		if err := json.Unmarshal(line, &it); err != nil {
			t.Fatalf("read the line %q: %v", line, err)
		}
		all = append(all, it)
	}
	return all
}

// happens writes n entries about a node into the log of an account, as its use cases would.
func (s *stack) happens(t testing.TB, account, node string, n int) {
	t.Helper()
	at, err := drive.ParseID[drive.AccountID](account)
	if err != nil {
		t.Fatal(err)
	}
	id, err := drive.ParseID[drive.NodeID](node)
	if err != nil {
		t.Fatal(err)
	}
	err = s.DB.Write(t.Context(), func(_ context.Context, tx *sqldb.Tx) error {
		for i := range n {
			if err := s.Activity.Record(tx, activity.Entry{Account: at, Verb: activity.NodeChanged, Node: id, Name: fmt.Sprint(i)}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An export has the entries of the list in reverse order and can be resumed after any line.
func TestActivityIsExported(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	team := ann.space(t, "Design")
	ann.give(t, team["root_id"], "bob", "editor")
	open := ann.mkdir(t, "//Design/Open").json(t, http.StatusCreated)["id"].(string)
	secret := ann.mkdir(t, "//Design/Secret").json(t, http.StatusCreated)["id"].(string)
	ann.give(t, secret, "bob", "none")
	s.happens(t, team["id"].(string), open, 1200) // more than two pieces
	s.happens(t, team["id"].(string), secret, 3)

	for _, path := range []string{"?space=Design", "?node=" + open, "?space=design&type=grant,space", ""} {
		for _, u := range []user{ann, bob} {
			got := u.get(t, "/activity/export"+path).exported(t)
			var listed []map[string]any
			for next := ""; ; {
				page := u.get(t, "/activity?limit=500&"+strings.TrimPrefix(path, "?")+next).json(t, http.StatusOK)
				for _, it := range page["items"].([]any) {
					listed = append(listed, it.(map[string]any))
				}
				cursor, more := page["next_cursor"].(string)
				if !more {
					break
				}
				next = "&cursor=" + cursor
			}
			slices.Reverse(listed)
			if d := cmp.Diff(listed, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s of %s: the export is not the list: %s", path, u.name, clipped(d))
			}
			for _, at := range []int{0, len(got) / 2, len(got) - 1} {
				if len(got) == 0 {
					break
				}
				sign := "?"
				if path != "" {
					sign = "&"
				}
				rest := u.get(t, fmt.Sprintf("/activity/export%s%safter=%v", path, sign, got[at]["id"])).exported(t)
				if d := cmp.Diff(got[at+1:], rest, cmpopts.EquateEmpty()); d != "" {
					t.Errorf("%s of %s after entry %d: %s", path, u.name, at, clipped(d))
				}
			}
		}
	}
	bob.get(t, "/activity/export?node="+secret).problem(t, drive.NotFound, nil)
	s.newUser(t, "eve", 0).get(t, "/activity/export?space=Design").problem(t, drive.NotFound, nil)

	// A cursor of another log or account is refused.
	mine := ann.get(t, "/activity/export").exported(t)
	last := mine[len(mine)-1]["id"].(string)
	for _, after := range []string{"x", "0-00000000", "99999999-00000000", last[:len(last)-8] + "zzzzzzzz"} {
		ann.get(t, "/activity/export?after="+after).problem(t, drive.CursorInvalid, nil)
	}
	bob.get(t, "/activity/export?after="+last).problem(t, drive.CursorInvalid, nil)
}

// What happened to accounts is exported for administrators: of one user, or of all, and nothing
// about files.
func TestActivityOfAccountsIsExportedForAdministrators(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, boss := s.newUser(t, "ann", 0), s.admin(t)
	s.newUser(t, "bob", 0)
	ann.mkdir(t, "/Mine").json(t, http.StatusCreated)
	ann.post(t, "/tokens", map[string]any{"name": "phone", "scopes": []string{"read"}}).json(t, http.StatusCreated)
	of := "/admin/users/" + ann.id + "/activity/export"
	ann.get(t, of).problem(t, drive.Forbidden, nil)
	ann.get(t, "/admin/activity/export").problem(t, drive.Forbidden, nil)
	boss.get(t, "/admin/users/"+drive.NewID[drive.UserID]().String()+"/activity/export").problem(t, drive.NotFound, nil)
	tell := func(all []map[string]any) []string { slices.Reverse(all); return told(t, all) }
	if d := cmp.Diff([]string{"login.created  by ann", "token.created phone by ann"}, tell(boss.get(t, of).exported(t))); d != "" {
		t.Error(d)
	}

	if s.DB.Dialect() == sqldb.MySQL { // an entry with a lower number might be on its way
		if n := len(boss.get(t, "/admin/activity/export").exported(t)); n != 0 {
			t.Errorf("%d entries of this minute are exported", n)
		}
	}
	s.Clock.Advance(2 * time.Minute)
	all := boss.get(t, "/admin/activity/export").exported(t)
	for _, it := range all {
		if it["account_id"] == nil || strings.HasPrefix(it["type"].(string), "node.") {
			t.Errorf("it tells %v", it)
		}
	}
	names := tell(slices.Clone(all))
	for _, want := range []string{"login.created  by bob", "login.created  by ann", "token.created phone by ann"} {
		if !slices.Contains(names, want) {
			t.Errorf("%q is not among %q", want, names)
		}
	}
	at := slices.Index(names, "login.created  by bob")
	rest := boss.get(t, fmt.Sprintf("/admin/activity/export?type=token&after=%v", all[at]["id"])).exported(t)
	if d := cmp.Diff([]string{"token.created phone by ann"}, tell(rest)); d != "" {
		t.Error(d)
	}
}

// hooked is a connection on which something happens before the first byte goes out.
type hooked struct {
	*httptest.ResponseRecorder
	before func()
}

func (h *hooked) Write(b []byte) (int, error) {
	if h.before != nil {
		h.before()
		h.before = nil
	}
	return h.ResponseRecorder.Write(b)
}

// An export that cannot be completed breaks its stream: a caller who loses the right, or a database
// that is down, never causes a short list that looks complete.
func TestExportIsCompleteOrAborted(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	team := ann.space(t, "Design")
	grant := ann.give(t, team["root_id"], "bob", "viewer")
	open := ann.mkdir(t, "//Design/Open").json(t, http.StatusCreated)["id"].(string)
	s.happens(t, team["id"].(string), open, 700)

	fetch := func(after string, before func()) (lines []byte, cut any) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/activity/export?space=Design"+after, nil)
		r.Header.Set("Authorization", "Bearer "+bob.token)
		w := &hooked{httptest.NewRecorder(), before}
		defer func() { lines, cut = w.Body.Bytes(), recover() }()
		s.server.ServeHTTP(w, r)
		return nil, nil
	}
	lines, cut := fetch("", func() { ann.take(t, grant) })
	if cut != http.ErrAbortHandler { //nolint:errorlint // what was panicked with
		t.Errorf("an export whose reader has lost the right ends with %v", cut)
	}
	got := entriesOf(t, lines)
	if len(got) == 0 || len(got) > 600 {
		t.Errorf("%d entries were sent", len(got))
	}

	// After the fault the export resumes after the last complete line.
	ann.give(t, team["root_id"], "bob", "viewer")
	lines, cut = fetch("&after="+got[len(got)-1]["id"].(string), nil)
	if cut != nil {
		t.Errorf("it ends with %v", cut)
	}
	got = append(got, entriesOf(t, lines)...)
	want := bob.get(t, "/activity/export?space=Design").exported(t)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("together they are not the whole: %s", clipped(d))
	}
}

// A client that resumes after entries were deleted for their age is told that entries may be
// missing, unless none is.
func TestActivityExportReportsDeletedGap(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann := s.newUser(t, "ann", 0)
	dir := ann.mkdir(t, "/Mine").json(t, http.StatusCreated)
	old := ann.get(t, "/activity/export").exported(t)
	s.Clock.Advance(24 * time.Hour)
	ann.mkdir(t, "/Mine/more").json(t, http.StatusCreated)
	s.Clock.Advance(180*24*time.Hour - time.Hour)
	if err := s.Activity.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	ann = s.login(t, "ann")
	last := old[len(old)-1]["id"]
	ann.get(t, fmt.Sprintf("/activity/export?after=%v", old[0]["id"])).problem(t, drive.Gone, nil)
	if got := ann.get(t, fmt.Sprintf("/activity/export?after=%v&node=%v", last, dir["id"])).exported(t); len(got) != 1 || got[0]["name"] != "more" {
		t.Errorf("after the last one that was deleted come %v", got)
	}
}

// One user's exports do not keep all processors busy: there are two at a time.
func TestTwoActivityExportsPerUser(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	u.put(t, "/a.txt", []byte("first"))
	w := &idle{ResponseWriter: httptest.NewRecorder(), writing: make(chan struct{}), end: make(chan struct{})}
	var reading sync.WaitGroup
	for range 2 {
		reading.Go(func() {
			defer func() { _ = recover() }() // the connection is broken off in the end
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/activity/export", nil)
			r.Header.Set("Authorization", "Bearer "+u.token)
			s.server.ServeHTTP(w, r)
		})
		<-w.writing
	}
	u.get(t, "/activity/export").problem(t, drive.Rate, map[string]any{"limit": 2, "sent": 3})
	if got := other.get(t, "/activity/export"); got.StatusCode != http.StatusOK {
		t.Errorf("another user: %s", got)
	}
	close(w.end)
	reading.Wait()
	if got := u.get(t, "/activity/export"); got.StatusCode != http.StatusOK {
		t.Errorf("when the others have ended: %s", got)
	}
}
