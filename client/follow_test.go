package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// log is a server that knows nothing but what happened.
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
	page := List[Happened]{Items: []Happened{}}
	for i := from; i > 0 && len(page.Items) < followPage; i-- {
		page.Items = append(page.Items, Happened{ID: fmt.Sprintf("%d-00000000", i), At: time.Unix(1, 0), Data: json.RawMessage("{}")})
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

// Whoever follows is shown each entry once, in order, over pages and cuts, and goes on where it
// stopped; it ends when it is told to, and when there is nothing to look at any more.
func TestFollow(t *testing.T) {
	t.Parallel()
	l := &log{top: 70}
	s := httptest.NewServer(l)
	defer s.Close()
	api, err := New(Options{BaseURL: s.URL, Token: "x", GiveUp: time.Millisecond, Pause: time.Millisecond})
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
		got, last = append(got, positionOf(h.ID)), h.ID
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
