package main

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"example.org/smartdrive/test/history"
)

// told is the state of one upload according to the logs.
type told struct {
	id, user  string
	begin     history.Record
	parts     map[int]bool // acknowledged and not dropped since
	asked     map[int]bool // sent and not known to be dropped
	lastTouch int64        // Unix ms when the last request was sent that created the upload or delivered accepted bytes; 0: unknown
	// cancelled is the strongest phase of any cancel.
	cancelled history.Phase
	completed history.Phase // strongest phase of any complete or proof
	node      string
}

// attempt identifies a begin, or a put, that may have created an upload unknown to its client.
type attempt struct{ account, name, fingerprint string }

// uploadsOf compares the rows of uploads with the logs.
func (c *checker) uploadsOf(records []history.Record, accounts map[string]string) {
	uploads, attempts, starts := c.gather(records, accounts)
	for _, u := range uploads {
		if r := c.rows[u.id]; r == nil {
			c.found("P4", "upload %s was acknowledged to %s and has no row", u.id, u.user)
		} else {
			c.judge(u, r, starts)
		}
	}
	prints := map[string]int{}
	for id, r := range c.rows {
		if r.fingerprint != "" && r.reason != "abandoned" { // after an abandonment the client rightly gets a new upload
			prints[r.fingerprint]++
		}
		if uploads[id] == nil && !attempts[attempt{r.account, r.name, r.fingerprint}] {
			c.found("log", "nobody has asked for upload %s of %q", id, r.name)
		}
	}
	for print, n := range prints {
		if n > 1 {
			c.found("I1", "%d uploads were made for the one file %q", n, print)
		}
	}
}

// gather groups the records by upload. It also returns the attempts, because a begin may be
// unanswered and a put uses an upload internally, and the times at which servers were started, in
// Unix ms.
func (c *checker) gather(records []history.Record, accounts map[string]string) (map[string]*told, map[attempt]bool, []int64) {
	uploads, attempts, starts := map[string]*told{}, map[attempt]bool{}, []int64{}
	type key struct {
		client string
		op     int64
	}
	intents := map[key]history.Record{}
	for _, r := range records {
		k := key{r.Client, r.Op}
		if r.Phase == history.Intent {
			intents[k] = r
			if r.Do == history.Begin || r.Do == history.Put {
				attempts[attempt{accounts[r.User], path.Base(r.Path), r.Fingerprint}] = true
			}
			if r.Do == history.Ready {
				starts = append(starts, r.At)
			}
		}
		intent := intents[k]
		id := cmp.Or(r.Upload, intent.Upload)
		if r.Phase == history.Seen && uploads[id] != nil {
			c.shown(uploads[id], r)
		}
		if id == "" || r.Client == "" || r.Phase == history.Seen {
			continue
		}
		u := uploads[id]
		if u == nil {
			u = &told{id: id, user: r.User, parts: map[int]bool{}, asked: map[int]bool{}}
			uploads[id] = u
		}
		u.hear(r, intent)
	}
	return uploads, attempts, starts
}

// shown checks that an upload as shown to its owner contains every part acknowledged before (P2).
func (c *checker) shown(u *told, r history.Record) {
	if r.State == "done" || r.State == "gone" {
		return
	}
	for n := range u.parts {
		if !slices.Contains(r.Received, n) {
			c.found("P2", "part %d of upload %s was acknowledged; shown as %s at %d it has parts %v", n, u.id, r.State, r.At, r.Received)
		}
	}
}

// hear applies one record. intent is the intent that r ends, or r itself.
func (u *told) hear(r, intent history.Record) {
	// Only arriving bytes count as activity. A begin that created nothing found an upload whose
	// own begin lost its response.
	if r.Phase == history.Done && (r.Do == history.Part || r.Do == history.Begin && r.Status == http.StatusCreated) {
		u.lastTouch = max(u.lastTouch, intent.At)
	}
	type event struct {
		history.Action
		history.Phase
	}
	n := intent.Part
	switch (event{r.Do, r.Phase}) {
	case event{history.Begin, history.Done}:
		u.begin = intent
	case event{history.Part, history.Intent}:
		u.asked[n] = true
	case event{history.Part, history.Done}:
		u.parts[n] = true
	case event{history.Drop, history.Intent}:
		delete(u.parts, n)
	case event{history.Drop, history.Done}:
		delete(u.asked, n)
	}
	switch wrongProof := r.Phase == history.Done && r.Node == ""; {
	case r.Do == history.Cancel:
		u.cancelled = stronger(u.cancelled, r.Phase)
	case (r.Do == history.Complete || r.Do == history.Prove) && !wrongProof:
		u.completed = stronger(u.completed, r.Phase)
		u.node = cmp.Or(r.Node, u.node)
	}
}

// stronger returns the phase that says more about an action tried several times. An intent counts
// as unsure until its outcome. A refusal does not cancel an earlier unsure outcome; only an
// observation can.
func stronger(have, next history.Phase) history.Phase {
	order := map[history.Phase]int{history.Refused: 1, history.Intent: 2, history.Unsure: 2, history.Done: 3}
	if order[next] > order[have] {
		return next
	}
	return have
}

// judge checks that the row of an upload agrees with the logs (P4).
func (c *checker) judge(u *told, r *uploadRow, starts []int64) {
	switch r.state {
	case "active", "parked", "sealing":
		c.partsThere(u, r)
	case "done":
		if u.completed != history.Done && u.completed != history.Unsure && u.completed != history.Intent {
			c.found("P4", "upload %s is done and nobody has completed it", u.id)
		}
		if u.completed == history.Done && r.node.String != u.node {
			c.found("P4", "upload %s made node %s, its client was told %s", u.id, r.node.String, u.node)
		}
	case "gone", "reclaiming":
		c.goneRightly(u, r, starts)
	}
	if u.cancelled == history.Done && r.state != "gone" && r.state != "reclaiming" {
		c.found("P4", "upload %s was cancelled and is %s", u.id, r.state)
	}
	if u.completed == history.Done && r.state != "done" {
		c.found("P4", "upload %s was completed and is %s", u.id, r.state)
	}
}

// partsThere checks that all acknowledged parts have arrived (P2), that the bytes are those sent,
// and that no other parts exist.
func (c *checker) partsThere(u *told, r *uploadRow) {
	for n := range u.parts {
		if p, ok := r.parts[n]; !ok || p.tail {
			c.found("P2", "part %d of upload %s was acknowledged and is not there", n, u.id)
		}
	}
	if r.state == "sealing" {
		return
	}
	data, err := os.Open(filepath.Join(c.staging(r), "data"))
	if err != nil {
		return // reported by bytesOf
	}
	defer data.Close()
	content := history.Content{Seed: u.begin.Seed, Size: u.begin.Size}
	for n, p := range r.parts {
		if !u.asked[n] {
			c.found("log", "part %d of upload %s is there and nobody has sent it", n, u.id)
		}
		got := make([]byte, p.size)
		_, err := io.ReadFull(io.NewSectionReader(data, int64(n)*r.partSize, p.size), got)
		if err != nil || !bytes.Equal(got, content.Bytes(int64(n)*r.partSize, p.size)) {
			c.found("P2", "part %d of upload %s is not what was sent (%v)", n, u.id, err)
		}
	}
}

// goneRightly checks the reason why an upload is gone, and that it was not abandoned too early
// (T1).
func (c *checker) goneRightly(u *told, r *uploadRow, starts []int64) {
	switch r.reason {
	case "cancelled":
		if u.cancelled == "" || u.cancelled == history.Refused {
			c.found("P4", "upload %s was cancelled by nobody", u.id)
		}
	case "abandoned":
		if c.abandon > 0 && r.state == "gone" && !mayGiveUp(starts, u.lastTouch, r.ended, c.abandon.Milliseconds()) {
			c.found("T1", "upload %s was given up at %d, %s after the last accepted request, or too soon after a start",
				u.id, r.ended, time.Duration(r.ended-u.lastTouch)*time.Millisecond)
		}
	default:
		c.found("P4", "upload %s is gone because %q", u.id, r.reason)
	}
}

// mayGiveUp reports whether a server could have begun to reclaim an upload that was gone at ended.
// That requires one run of the server in which it had been up for the hold time and the upload idle
// for abandon. A reclaim may continue in the next run. All times are Unix ms.
func mayGiveUp(starts []int64, touched, ended, abandon int64) bool {
	if len(starts) == 0 {
		starts = []int64{0} // start unknown: long ago
	}
	hold := min(time.Hour.Milliseconds(), abandon)
	for i, start := range starts {
		until := ended
		if i+1 < len(starts) {
			until = min(until, starts[i+1])
		}
		if max(start+hold, touched+abandon) <= until {
			return true
		}
	}
	return false
}
