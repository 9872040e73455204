package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"example.org/smartdrive/test/history"
)

// probe is a user who measures how long it takes until each kind of request succeeds again.
type probe struct {
	t     *testing.T
	token string
	known string // node of a file to read
	n     int
	rows  map[string]map[string][]time.Duration // times by victim and kind
}

// kinds lists the columns of the table. "serves" is the time from the component's start to its
// first answer; all others count from that answer. "parked" is the time until an upload is parked,
// without the idle time.
var kinds = []string{"serves", "look", "read", "put", "begin", "part", "complete", "parked"}

func newProbe(t *testing.T, n *node) *probe {
	t.Helper()
	u := n.NewUser(t, "probe", 1<<40)
	file := u.Put(t, "/known", history.Content{Seed: 9, Size: 1000})
	return &probe{t: t, token: u.Token, known: file["id"].(string), rows: map[string]map[string][]time.Duration{}}
}

func (p *probe) note(victim, kind string, took time.Duration) {
	row := p.rows[victim]
	if row == nil {
		row = map[string][]time.Duration{}
		p.rows[victim] = row
	}
	row[kind] = append(row[kind], took)
}

// measure measures how long each kind of request takes to succeed after a failure of victim.
func (p *probe) measure(victim string, to *balancer) {
	p.t.Helper()
	began := time.Now()
	w := newWire(to, p.token)
	defer w.http.CloseIdleConnections()
	p.n++
	name := fmt.Sprint("/", p.n)
	step := func(kind string, q request) reply {
		r := p.until(w, kind, q)
		p.note(victim, kind, time.Since(began))
		return r
	}
	step("look", request{method: "GET", path: "/nodes/" + p.known})
	step("read", request{method: "GET", path: "/nodes/" + p.known + "/content"})
	step("put", request{method: "PUT", path: "/files" + name, body: []byte("small")})
	begin := func(name string) string {
		body := map[string]any{"path": name, "size": 100, "part_size": partSize, "fingerprint": name}
		v, err := into[view](p.until(w, "begin", request{method: "POST", path: "/uploads", body: body}))
		if err != nil {
			p.t.Fatal(err)
		}
		return v.ID
	}
	id := begin(name + "-up")
	p.note(victim, "begin", time.Since(began))
	step("part", request{method: "PUT", path: "/uploads/" + id + "/parts/0", body: make([]byte, 100)})
	step("complete", request{method: "POST", path: "/uploads/" + id + "/complete", body: map[string]any{}})
	id = begin(name + "-quiet")
	for late := time.Now().Add(patience); ; {
		v, err := into[view](p.until(w, "view", request{method: "GET", path: "/uploads/" + id}))
		if err == nil && v.State == "parked" {
			break
		}
		if time.Now().After(late) {
			p.t.Fatalf("after %s: upload %s is not parked within %s: %+v, %v", victim, id, patience, v, err)
		}
		<-time.After(20 * time.Millisecond)
	}
	p.note(victim, "parked", time.Since(began)-idle)
	p.until(w, "cancel", request{method: "DELETE", path: "/uploads/" + id})
}

// until retries a request until it succeeds.
func (p *probe) until(w *wire, kind string, q request) reply {
	p.t.Helper()
	for late := time.Now().Add(patience); ; {
		r := w.send(context.Background(), q)
		if r.result() == done {
			return r
		}
		if err := r.unclear(); err != nil {
			p.t.Fatalf("%s: %v", kind, err)
		}
		if time.Now().After(late) {
			p.t.Fatalf("%s does not succeed within %s: %s", kind, patience, r)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// table returns the median and the maximum of each time as a table.
func (p *probe) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "killed\tn\t%s\n", strings.Join(kinds, "\t"))
	for _, victim := range slices.Sorted(maps.Keys(p.rows)) {
		row := p.rows[victim]
		fmt.Fprintf(w, "%s\t%d", victim, len(row["look"]))
		for _, kind := range kinds {
			took := slices.Sorted(slices.Values(row[kind]))
			if len(took) == 0 {
				fmt.Fprint(w, "\t-")
				continue
			}
			fmt.Fprintf(w, "\t%.2f s", took[len(took)/2].Seconds())
			if len(took) > 1 {
				fmt.Fprintf(w, " (%.2f)", took[len(took)-1].Seconds())
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return b.String()
}
