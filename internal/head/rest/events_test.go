package rest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// ears is an event stream of a user.
type ears struct {
	t    testing.TB
	resp *http.Response
	in   chan event
	last string // the id of the last event
}

type event struct {
	name, id string
	data     map[string]any
}

// onAir is a stack that sends over HTTP, as streams need it, and where.
func onAir(t testing.TB) (*stack, string) {
	t.Helper()
	s := newStack(t, uploadtest.Options{})
	web := httptest.NewServer(s.server)
	t.Cleanup(web.Close)
	t.Cleanup(s.api.EndStreams)
	return s, web.URL
}

// listen opens a stream over a real connection.
func (u user) listen(t testing.TB, url, last string) *ears {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+u.token)
	req.Header.Set("Accept-Encoding", "gzip")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	e := &ears{t: t, resp: resp, in: make(chan event, 100)}
	if resp.StatusCode != http.StatusOK {
		close(e.in)
		return e
	}
	go func() {
		defer close(e.in)
		one := event{}
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "event":
				one.name = value
			case "id":
				one.id = value
			case "data":
				_ = json.Unmarshal([]byte(value), &one.data)
			case "":
				if one.name != "" {
					e.in <- one
				}
				one = event{}
			}
		}
	}()
	return e
}

// next returns the next event; one with an empty name: the stream has ended.
func (e *ears) next() event {
	e.t.Helper()
	select {
	case got := <-e.in:
		if got.id != "" {
			e.last = got.id
		}
		return got
	case <-time.After(time.Minute):
		e.t.Fatal("nothing is heard")
		return event{}
	}
}

func (e *ears) want(name string) event {
	e.t.Helper()
	got := e.next()
	if got.name != name {
		e.t.Fatalf("heard %+v, want %q", got, name)
	}
	return got
}

// hears waits until a hint names a folder.
func (e *ears) hears(folder any) {
	e.t.Helper()
	for {
		got := e.want("changed")
		if all, _ := got.data["folders"].([]any); slices.Contains(all, folder) || got.data["many"] == true {
			return
		}
	}
}

func TestEventsReachClients(t *testing.T) {
	t.Parallel()
	s, url := onAir(t)
	ann, bob, eve := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0), s.newUser(t, "eve", 0)
	team := ann.space(t, "Design")
	ann.give(t, team["root_id"], "bob", "editor")
	ann.mkdir(t, "/mine").json(t, http.StatusCreated)
	shared := ann.mkdir(t, "/shared/in").json(t, http.StatusCreated)
	ann.give(t, shared["id"], "eve", "viewer")

	a, b, e := ann.listen(t, url, ""), bob.listen(t, url, ""), eve.listen(t, url, "")
	for _, one := range []*ears{a, b, e} {
		h := one.resp.Header
		if h.Get("Content-Type") != "text/event-stream" || h.Get("X-Accel-Buffering") != "no" || h.Get("Content-Encoding") != "" || !strings.Contains(h.Get("Cache-Control"), "no-transform") {
			t.Errorf("the header is %v", h)
		}
		one.want("ready")
	}
	// All members get the events of a space, receivers those of a share, and nobody else those of
	// one's own files.
	plan := ann.mkdir(t, "//Design/Plans").json(t, http.StatusCreated)
	a.hears(team["root_id"])
	b.hears(team["root_id"])
	ann.send(t, "PUT", "/files/mine/secret.txt", []byte("x")).json(t, http.StatusCreated)
	file := ann.send(t, "PUT", "/files/shared/in/a.txt", []byte("x")).json(t, http.StatusCreated)
	a.hears(file["parent_id"])
	if got := e.want("changed"); len(got.data["folders"].([]any)) != 1 || got.data["folders"].([]any)[0] != shared["id"] || got.data["many"] != false {
		t.Errorf("eve hears %+v", got)
	}
	bob.mkdir(t, "//Design/Plans/2027").json(t, http.StatusCreated)
	b.hears(plan["id"]) // and not of ann's own files before
	a.hears(plan["id"])

	// A client that reconnects gets the events it missed.
	last := b.last
	_ = b.resp.Body.Close()
	ann.mkdir(t, "//Design/Plans/2028").json(t, http.StatusCreated)
	b = bob.listen(t, url, last)
	b.want("ready")
	b.hears(plan["id"])
	for _, unknown := range []string{"99999999", "x", "-5"} {
		gone := bob.listen(t, url, unknown)
		gone.want("ready")
		gone.want("reset")
		_ = gone.resp.Body.Close()
	}

	// A server that stops ends all streams and refuses new ones.
	s.api.EndStreams()
	for _, one := range []*ears{a, b, e} {
		for got := one.next(); got.name != ""; got = one.next() {
			t.Logf("%+v", got)
		}
	}
	late := bob.listen(t, url, "")
	late.want("ready")
	if got := late.next(); got.name != "" {
		t.Errorf("after the end: %+v", got)
	}
}

// A user has so many streams at a time, and they take no place from other requests.
func TestStreamsOfAUserAreCounted(t *testing.T) {
	t.Parallel()
	s, url := onAir(t)
	ann := s.newUser(t, "ann", 0)
	var all []*ears
	for range 16 {
		one := ann.listen(t, url, "")
		one.want("ready")
		all = append(all, one)
	}
	if got := ann.listen(t, url, ""); got.resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more: %d", got.resp.StatusCode)
	}
	ann.get(t, "/me").json(t, http.StatusOK)
	folder := ann.mkdir(t, "/a").json(t, http.StatusCreated)
	for _, one := range all {
		one.hears(folder["parent_id"])
	}
}

// Many changes in a row are coalesced to few hints, and a stream that lags too far behind says so.
func TestChangesAreCoalescedToHints(t *testing.T) {
	t.Parallel()
	s, url := onAir(t)
	ann := s.newUser(t, "ann", 0)
	a := ann.listen(t, url, "")
	a.want("ready")
	_ = a.resp.Body.Close()
	for i := range 120 {
		ann.mkdir(t, fmt.Sprintf("/a/%d/b", i)).json(t, http.StatusCreated)
	}
	a = ann.listen(t, url, a.last)
	a.want("ready")
	if got := a.want("changed"); got.data["many"] != true || len(got.data["folders"].([]any)) != 0 {
		t.Errorf("heard %+v", got)
	}
}

// A changed role is announced with the change, because pages offer only allowed actions.
func TestRoleChangeUpdatesStream(t *testing.T) {
	t.Parallel()
	s, url := onAir(t)
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	team := ann.space(t, "Design")
	member := ann.give(t, team["root_id"], "bob", "editor")
	b := bob.listen(t, url, "")
	b.want("ready")
	access := func() {
		t.Helper()
		for {
			if kinds, _ := b.want("changed").data["kinds"].([]any); slices.Contains(kinds, any("access")) {
				return
			}
		}
	}
	ann.give(t, team["root_id"], "bob", "viewer")
	access()
	ann.give(t, team["root_id"], "bob", "manager")
	access()
	ann.take(t, member)
	access()
}

// A revoked role ends the events at once.
func TestStreamHidesForeignEvents(t *testing.T) {
	t.Parallel()
	s, url := onAir(t)
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	team := ann.space(t, "Design")
	member := ann.give(t, team["root_id"], "bob", "editor")
	b := bob.listen(t, url, "")
	b.want("ready")
	ann.take(t, member)
	ann.mkdir(t, "//Design/secret").json(t, http.StatusCreated)
	mine := bob.mkdir(t, "/mine").json(t, http.StatusCreated)
	for {
		got := b.want("changed")
		if got.data["account_id"] == team["id"] {
			t.Fatalf("bob hears %+v", got)
		}
		if slices.Contains(got.data["folders"].([]any), mine["parent_id"]) {
			break
		}
	}
}
