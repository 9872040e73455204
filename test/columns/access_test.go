package columns

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/access/accesstest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// Permissions over the API and tus equal those of the model on every column. Users create and move
// folders, grant and revoke roles, and join and leave groups; spaces are archived, deleted and
// restored. After each change, users try random requests. SMARTDRIVE_ACCESS is the number of
// requests on SQLite; columns with a server get a tenth. The soak of make deep makes a million.
func TestAccessOnAllColumnsIsThatOfTheModel(t *testing.T) {
	t.Parallel()
	of := slices.DeleteFunc(available(t), func(m makeup) bool {
		return !slices.Contains([]string{"embedded", "cluster", "cluster of two"}, m.name)
	})
	columns := start(t, of, "--user-requests", "64")
	wanted := number(t, "SMARTDRIVE_ACCESS", depth.Pick(1000, 5000, 50_000))
	var all sync.WaitGroup
	for i, c := range columns {
		least := wanted
		if i > 0 {
			least = wanted / 10
		}
		all.Go(func() { hold(t, c, least) })
	}
	all.Wait()
	if !t.Failed() {
		sound(t, columns)
	}
}

// worldRequests are made in one world: then there are new people.
const worldRequests = 20_000

// hold holds a column to the model, for as many requests.
func hold(t *testing.T, c *column, least int) {
	began, asked, waits := time.Now(), 0, 0
	for seed := uint64(1); asked < least && !t.Failed(); seed++ {
		s := newSociety(t, c, seed)
		for s.err == nil && s.asked < worldRequests && asked+s.asked < least {
			s.step()
		}
		if asked+s.asked >= least {
			s.outlive()
		}
		if s.err != nil {
			t.Errorf("%s, seed %d, after %d requests: %v", c.name, seed, s.asked, s.err)
		}
		asked, waits = asked+s.asked, waits+s.waits
	}
	t.Logf("%s: %d requests in %s, %d of them had to wait for another instance", c.name, asked, time.Since(began).Round(time.Second), waits)
}

// society is a set of users with drives, spaces and groups on a column, and its model.
type society struct {
	*column
	*accesstest.Model

	rand    *rand.Rand
	people  []citizen
	links   []given
	at      int       // the instance at which there are changes
	changed time.Time // when the last one was answered
	asked   int
	waits   int
	err     error // the first thing that was wrong; nothing is done any more
}

type citizen struct {
	user  drive.UserID
	token string
}

func newSociety(t *testing.T, c *column, seed uint64) *society {
	s := &society{column: c, Model: accesstest.New(), rand: rand.New(rand.NewPCG(seed, 19))}
	s.Now = time.Now()
	salt := servicetest.Unique()
	for i := range 6 {
		var made struct{ ID, Token string }
		name := fmt.Sprintf("citizen-%d-%s", i, salt)
		s.must("POST", "/admin/users", map[string]any{"name": name, "password": password}, &made)
		user, err := drive.ParseID[drive.UserID](made.ID)
		s.note(err)
		s.must("POST", "/sessions", map[string]any{"name": name, "password": password}, &made)
		s.people = append(s.people, citizen{user, made.Token})
	}
	for i, p := range s.people[:2] {
		var root struct{ ID string }
		_, answer := s.send(s.at, p.token, "GET", "/api/v1/nodes/root", nil)
		s.note(json.Unmarshal(answer, &root))
		s.AddAccount(accesstest.Account{Owner: p.user, Root: s.node(root.ID), State: access.Active})
		var made struct {
			ID   string
			Root string `json:"root_id"`
		}
		s.must("POST", "/admin/spaces", map[string]any{"name": fmt.Sprintf("space-%d-%s", i, salt), "manager": p.user, "total": nil}, &made)
		account, err := drive.ParseID[drive.AccountID](made.ID)
		s.note(err)
		s.AddAccount(accesstest.Account{Account: account, Root: s.node(made.Root), State: access.Active, Links: access.Editors, Outward: access.Managers})
		s.Grant(access.Grant{Node: s.node(made.Root), Principal: drive.PrincipalID(p.user), Role: access.Manager})
	}
	for i := range 3 {
		var made struct{ ID string }
		s.must("POST", "/admin/groups", map[string]any{"name": fmt.Sprintf("group-%d-%s", i, salt)}, &made)
		id, err := drive.ParseID[drive.GroupID](made.ID)
		s.note(err)
		s.AddGroup(id)
	}
	if s.err != nil {
		t.Errorf("%s: %v", c.name, s.err)
	}
	return s
}

func (s *society) note(err error) { s.err = cmp.Or(s.err, err) }

func (s *society) node(id string) drive.NodeID {
	n, err := drive.ParseID[drive.NodeID](id)
	s.note(err)
	return n
}

// must sends an administrator's request that must succeed.
func (s *society) must(method, path string, in, out any) {
	status, answer := s.send(s.at, s.admin, method, "/api/v1"+path, in)
	if status/100 != 2 {
		s.note(fmt.Errorf("%s %s: %d %s", method, path, status, answer))
		return
	}
	if out != nil {
		s.note(json.Unmarshal(answer, out))
	}
}

// send sends a request to an instance.
func (s *society) send(at int, token, method, path string, in any, header ...string) (status int, answer []byte) {
	resp, answer := s.exchange(at, token, method, path, in, header...)
	if resp == nil {
		return 0, nil
	}
	return resp.StatusCode, answer
}

func (s *society) exchange(at int, token, method, path string, in any, header ...string) (*http.Response, []byte) {
	s.asked++
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		s.note(err)
		body = bytes.NewReader(raw)
	}
	if !strings.HasPrefix(path, "http") {
		path = s.sites[at].url + path
	}
	req, err := http.NewRequest(method, path, body) //nolint:noctx // the server's time limits suffice
	if err != nil {
		s.note(err)
		return nil, nil
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		s.note(err)
		return nil, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	s.note(err)
	if resp.StatusCode >= 500 {
		s.note(fmt.Errorf("%s %s: %s %s", method, path, resp.Status, answer))
	}
	return resp, answer
}

// step makes one random change and then tries requests.
func (s *society) step() {
	acts := []func(citizen, drive.NodeID){s.mkdir, s.mkdir, s.move, s.give, s.give, s.give, s.take, s.take, s.join, s.leave, s.setState, s.setRules, s.share, s.collect}
	s.Now = time.Now()
	pick(s.rand, acts)(pick(s.rand, s.people), pick(s.rand, s.Nodes))
	for range 8 {
		s.ask(pick(s.rand, s.people), pick(s.rand, s.Nodes))
	}
	if s.several() && s.rand.IntN(60) == 0 { // what was changed here is known there by now, and then it is the other way round
		for s.err == nil && time.Since(s.changed) <= heldFor {
			s.ask(pick(s.rand, s.people), pick(s.rand, s.Nodes))
		}
		s.at = s.rand.IntN(len(s.sites))
	}
}

// heldFor is how long an instance may act on a right that another instance has revoked (A3).
const heldFor = 5 * time.Second

// question is a request that needs a right. It undoes its effect.
type question struct {
	what  string
	needs access.Right
	try   func(at int, p citizen, node drive.NodeID) int
}

func (s *society) questions() []question {
	get := func(path string) func(int, citizen, drive.NodeID) int {
		return func(at int, p citizen, node drive.NodeID) int {
			status, _ := s.send(at, p.token, "GET", fmt.Sprintf(path, node), nil)
			return status
		}
	}
	return []question{
		{"look", access.See, get("/api/v1/nodes/%s")},
		{"list", access.See, get("/api/v1/nodes/%s/children?limit=1")},
		{"see who has access", access.See, get("/api/v1/nodes/%s/access")},
		{"send by the API", access.Create, s.begin},
		{"send by tus", access.Create, s.beginTus},
	}
}

func (s *society) begin(at int, p citizen, node drive.NodeID) int {
	status, answer := s.send(at, p.token, "POST", "/api/v1/uploads", map[string]any{"parent": node, "name": s.name(), "size": 1})
	if status == http.StatusCreated {
		var up struct{ ID string }
		s.note(json.Unmarshal(answer, &up))
		if gone, answer := s.send(at, p.token, "DELETE", "/api/v1/uploads/"+up.ID, nil); gone != http.StatusNoContent {
			s.note(fmt.Errorf("cancel: %d %s", gone, answer))
		}
	}
	return status
}

func (s *society) beginTus(at int, p citizen, node drive.NodeID) int {
	path := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "//%s/%s", node, s.name()))
	resp, _ := s.exchange(at, p.token, "POST", "/tus/", nil, "Tus-Resumable", "1.0.0", "Upload-Length", "1", "Upload-Metadata", "path "+path)
	if resp == nil {
		return 0
	}
	if resp.StatusCode == http.StatusCreated {
		if gone, answer := s.send(at, p.token, "DELETE", resp.Header.Get("Location"), nil, "Tus-Resumable", "1.0.0"); gone != http.StatusNoContent {
			s.note(fmt.Errorf("terminate: %d %s", gone, answer))
		}
	}
	return resp.StatusCode
}

func (s *society) name() string { return fmt.Sprintf("%x", s.rand.Uint64()) }

// ask tries a random request at a random instance. An instance that made no change may lag behind.
func (s *society) ask(p citizen, node drive.NodeID) {
	switch s.rand.IntN(20) {
	case 0:
		s.askShared(p)
		return
	case 1, 2:
		s.askLink(pick(s.rand, s.links))
		return
	}
	q, at := pick(s.rand, s.questions()), s.rand.IntN(len(s.sites))
	s.agree(at, func() error { return wrong(q.what, s.Rights(p.user, node), q.needs, q.try(at, p, node)) })
}

// agree looks whether an instance agrees with the model, until it has to.
func (s *society) agree(at int, looks func() error) {
	if s.err != nil {
		return
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for first := true; ; first = false {
		s.Now = time.Now()
		late := at != s.at && time.Since(s.changed) <= heldFor
		err := looks()
		late = late || s.AnyExpires(s.Now.Add(-s.behind(at)), time.Now()) // a role has ended meanwhile
		if err == nil || !late || s.err != nil {
			s.note(err)
			return
		}
		if first {
			s.waits++
		}
		<-again.C
	}
}

// wrong returns an error if status is not the right reply for a user who has the rights in has and
// needs those in needs. A user who may not see the node gets 404.
func wrong(what string, has, needs access.Right, status int) error {
	fine := status == http.StatusForbidden
	switch {
	case status == 0: // which was noted
		return nil
	case has.Has(needs):
		fine = status != http.StatusForbidden && status != http.StatusNotFound
	case has == 0:
		fine = status == http.StatusNotFound
	case !has.Has(access.See): // nothing is seen below where one may only add
		fine = fine || status == http.StatusNotFound
	}
	if fine {
		return nil
	}
	return fmt.Errorf("%s with %04b is answered with %d", what, has, status)
}

// askShared compares the list of items shared with a user.
func (s *society) askShared(p citizen) {
	at := s.rand.IntN(len(s.sites))
	s.agree(at, func() error {
		var list struct {
			Items []struct{ Node struct{ ID string } }
		}
		status, answer := s.send(at, p.token, "GET", "/api/v1/shared-with-me?limit=1000", nil)
		if err := json.Unmarshal(answer, &list); err != nil || status != http.StatusOK {
			return fmt.Errorf("list what is shared: %d %s", status, answer)
		}
		want := s.SharedWith(p.user) // another copy each time
		for _, i := range list.Items {
			if !want[s.node(i.Node.ID)] {
				return fmt.Errorf("%s is shared with %s, and should not be", i.Node.ID, p.user)
			}
			delete(want, s.node(i.Node.ID))
		}
		for id := range want {
			return fmt.Errorf("%s is not shared with %s, and should be", id, p.user)
		}
		return nil
	})
}

// happened notes a change.
func (s *society) happened() { s.changed = time.Now() }
