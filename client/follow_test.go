package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// log is a server that only serves an activity log.
type log struct {
	mu   sync.Mutex
	top  int
	cuts int // requests that are cut off
	code int // instead of an answer
}

func (l *log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.code != 0 {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(l.code)
		_, _ = fmt.Fprint(w, `{"code":"not-found"}`)
		return
	}
	if l.cuts > 0 {
		l.cuts--
		panic(http.ErrAbortHandler)
	}
	from := l.top
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		_, _ = fmt.Sscan(cursor, &from)
		from--
	}
	page := List[ActivityEntry]{Items: []ActivityEntry{}}
	for i := from; i > 0 && len(page.Items) < followPage; i-- {
		page.Items = append(page.Items, ActivityEntry{ID: fmt.Sprintf("%d-00000000", i), At: time.Unix(1, 0), Data: json.RawMessage("{}")})
	}
	if left := from - len(page.Items); left > 0 {
		next := fmt.Sprint(left + 1)
		page.NextCursor = &next
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page)
}

func (l *log) add(n, cuts int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.top, l.cuts = l.top+n, cuts
}

// Following yields each entry once, in order, over pages and broken connections, and can be
// resumed. It ends when the caller stops, and with an error when access is lost.
func TestFollowActivity(t *testing.T) {
	t.Parallel()
	l := &log{top: 70}
	s := httptest.NewServer(l)
	defer s.Close()
	api, err := New(Options{BaseURL: s.URL, Token: "x", RetryFor: time.Millisecond, MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var got []int64
	last := ""
	l.add(0, 2) // before it has begun
	for h, err := range api.follow(ctx, ActivityQuery{}, "10-00000000", time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		got, last = append(got, entrySeq(h.ID)), h.ID
		switch len(got) {
		case 60:
			l.add(120, 3)
		case 180:
			stop()
		}
	}
	var want []int64
	for i := range int64(180) {
		want = append(want, i+11)
	}
	if !slices.Equal(got, want) {
		t.Errorf("followed %v", got)
	}
	l.add(1, 0)
	for h, err := range api.follow(t.Context(), ActivityQuery{}, last, time.Millisecond) {
		if err != nil || h.ID != "191-00000000" {
			t.Errorf("then %v %v", h.ID, err)
		}
		break
	}
	l.mu.Lock()
	l.code = http.StatusNotFound
	l.mu.Unlock()
	for _, err := range api.follow(t.Context(), ActivityQuery{}, "", time.Millisecond) {
		if !IsCode(err, CodeNotFound) {
			t.Errorf("it ended with %v", err)
		}
	}
}

// typed is a server of entries with types. As the real one, it omits uploads without a type filter,
// and a page without matches has a cursor that says how far it searched.
type typed struct {
	mu    sync.Mutex
	types []string // of the entries 1, 2, ...
	asked int
}

const typedLooks = 5 // entries that one page looks at

func (l *typed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	q := r.URL.Query()
	from := len(l.types)
	if cursor := q.Get("cursor"); cursor != "" {
		_, _ = fmt.Sscan(cursor, &from)
		from--
	}
	limit := followPage
	if text := q.Get("limit"); text != "" {
		_, _ = fmt.Sscan(text, &limit)
	}
	page := List[ActivityEntry]{Items: []ActivityEntry{}}
	i := from
	for ; i > 0 && from-i < typedLooks && len(page.Items) < limit; i-- {
		if want := q.Get("type"); want == "" && l.types[i-1] != "upload" || want == l.types[i-1] {
			page.Items = append(page.Items, ActivityEntry{ID: fmt.Sprintf("%d-00000000", i), Type: l.types[i-1], At: time.Unix(1, 0), Data: json.RawMessage("{}")})
		}
	}
	if i > 0 {
		next := fmt.Sprint(i + 1)
		page.NextCursor = &next
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page)
}

func (l *typed) add(types ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.types = append(l.types, types...)
}

// Following some types yields no entry from before the start: neither entries newer than the newest
// entry of other types, nor old ones if there are no newer ones.
func TestFollowActivityByTypeStartsNow(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]string{
		"uploads after the newest node": {"node", "upload", "upload", "upload"},
		"nodes after the newest upload": {"upload", "node", "node"},
		"no upload for long":            {"upload", "node", "node", "node", "node", "node", "node", "node", "node"},
		"nothing else for long":         {"node", "upload", "upload", "upload", "upload", "upload", "upload", "upload", "upload"},
		"nothing of either":             {"share", "share", "share", "share", "share", "share", "share"},
		"nothing at all":                nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &typed{types: before}
			s := httptest.NewServer(l)
			defer s.Close()
			api, err := New(Options{BaseURL: s.URL, Token: "x", RetryFor: time.Millisecond, MinBackoff: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			top, err := api.newestSeq(t.Context(), ActivityQuery{Types: "upload"})
			if err != nil {
				t.Fatal(err)
			}
			if early, err := api.entriesAfter(t.Context(), ActivityQuery{Types: "upload"}, top); err != nil || len(early) > 0 {
				t.Errorf("from %d on there is %v already: %v", top, early, err)
			}
			first := fmt.Sprintf("%d-00000000", len(before)+2)
			l.add("node", "upload")
			for range 6 {
				l.add("node")
			}
			fresh, err := api.entriesAfter(t.Context(), ActivityQuery{Types: "upload"}, top)
			if err != nil || len(fresh) != 1 || fresh[0].ID != first {
				t.Errorf("what is new is %v: %v", fresh, err)
			}
		})
	}
}

// It follows from there.
func TestFollowActivityByTypeYieldsNewEntries(t *testing.T) {
	t.Parallel()
	l := &typed{types: []string{"node", "upload", "upload"}}
	s := httptest.NewServer(l)
	defer s.Close()
	api, err := New(Options{BaseURL: s.URL, Token: "x", RetryFor: time.Millisecond, MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		for {
			l.mu.Lock()
			asked := l.asked
			l.mu.Unlock()
			if asked >= 3 { // twice for the beginning, and once after it
				l.add("upload")
				return
			}
			runtime.Gosched()
		}
	}()
	for h, err := range api.follow(t.Context(), ActivityQuery{Types: "upload"}, "", time.Millisecond) {
		if err != nil || h.ID != "4-00000000" {
			t.Errorf("the first one is %v %v", h.ID, err)
		}
		break
	}
	<-begun
}
