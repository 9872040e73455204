package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/testkit/servicetest"
	testbacking "example.org/smartdrive/test/backing"
	"example.org/smartdrive/test/process"
)

// person is a user of a cluster. Each request names the instance that it goes to.
type person struct {
	t         *testing.T
	id, token string
}

func newPerson(t *testing.T, n *node, admin, name string) person {
	t.Helper()
	p := person{t: t, token: admin}
	var made struct{ ID, Token string }
	p.must(n, "POST", "/admin/users", map[string]any{"name": name, "password": clusterPassword}, &made)
	p.id = made.ID
	p.must(n, "POST", "/sessions", map[string]any{"name": name, "password": clusterPassword}, &made)
	p.token = made.Token
	return p
}

// must sends a request and fails the test unless it succeeds.
func (p person) must(n *node, method, path string, in, out any) {
	p.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		p.t.Fatal(err)
	}
	if in == nil {
		body = nil
	}
	status, answer := n.send(p.t, p.token, method, "/api/v1"+path, body)
	if status/100 != 2 {
		p.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(answer, out); err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// mkdir makes a folder and returns its id.
func (p person) mkdir(n *node, parent, name string) string {
	p.t.Helper()
	var made struct{ ID string }
	p.must(n, "POST", "/nodes", map[string]any{"type": "folder", "parent": parent, "name": name}, &made)
	return made.ID
}

func (p person) share(n *node, folder, with string) {
	p.t.Helper()
	p.must(n, "POST", "/nodes/"+folder+"/grants", map[string]any{"kind": "user", "principal": with, "role": "viewer"}, nil)
}

// told waits for the given number of notifications and returns the nodes that they refer to.
func (p person) told(n *node, many int) (nodes []string) {
	p.t.Helper()
	process.Eventually(p.t, patience, fmt.Sprintf("%d notices", many), func() error {
		var list struct {
			Items []struct {
				Kind, What string
				Node       string `json:"node_id"`
			}
		}
		p.must(n, "GET", "/notices", nil, &list)
		if len(list.Items) < many {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		nodes = nil
		for _, i := range list.Items {
			if i.Kind != "share" || i.What != "given" {
				p.t.Fatalf("told is %+v", i)
			}
			nodes = append(nodes, i.Node)
		}
		return nil
	})
	slices.Sort(nodes)
	return nodes
}

// ears listen to what happens, and remember how far they have heard.
type ears struct {
	person
	last string
}

// listen opens the stream of an instance and returns it, with the first word said.
func (e *ears) listen(n *node) (next func() (name string, folders []string), hangUp func()) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"/api/v1/events", nil)
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.token)
	if e.last != "" {
		req.Header.Set("Last-Event-Id", e.last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		e.t.Fatalf("listen: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	next = func() (name string, folders []string) {
		e.t.Helper()
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				e.last = value
			case "event":
				name = value
			case "data":
				var hint struct{ Folders []string }
				if err := json.Unmarshal([]byte(value), &hint); err != nil {
					e.t.Fatal(err)
				}
				folders = hint.Folders
			case "":
				if name != "" {
					return name, folders
				}
			}
		}
		e.t.Fatalf("the stream has ended: %v", lines.Err())
		return "", nil
	}
	hangUp = func() {
		cancel()
		_ = resp.Body.Close()
	}
	if name, _ := next(); name != "ready" {
		e.t.Fatalf("%q came first", name)
	}
	return next, hangUp
}

// hear subscribes to the event stream, calls happens, waits until each folder is reported as
// changed, and disconnects.
func (e *ears) hear(n *node, happens func(), folders ...string) {
	e.t.Helper()
	next, hangUp := e.listen(n)
	defer hangUp()
	happens()
	for len(folders) > 0 {
		name, heard := next()
		if name != "changed" {
			e.t.Fatalf("heard %q", name)
		}
		folders = slices.DeleteFunc(folders, func(f string) bool { return slices.Contains(heard, f) })
	}
}

// told checks that events of one instance reach clients of the other one. A client that reconnects
// elsewhere misses none. A share notifies its receiver once, even if the consumer died before it
// stored its position.
func told(t *testing.T, cfg []config.Config, nodes []*node, admin string) {
	t.Helper()
	ann, bob := newPerson(t, nodes[0], admin, "ann"), newPerson(t, nodes[1], admin, "bob")
	plans := ann.mkdir(nodes[0], "root", "plans")
	old, late := ann.mkdir(nodes[0], plans, "old"), ann.mkdir(nodes[1], plans, "late")
	ann.share(nodes[0], plans, "bob")
	if got := bob.told(nodes[1], 1); !slices.Equal(got, []string{plans}) {
		t.Fatalf("bob is told of %v", got)
	}

	e := &ears{person: bob}
	e.hear(nodes[1], func() { ann.mkdir(nodes[0], plans, "a") }, plans)
	ann.mkdir(nodes[0], old, "b") // when nobody listens
	ann.mkdir(nodes[1], late, "c")
	e.hear(nodes[0], func() {}, old, late)
	e.hear(nodes[1], func() { ann.mkdir(nodes[0], old, "d") }, old)
	follow(t, nodes, ann)

	for _, n := range nodes {
		n.stop()
	}
	rewind(t, cfg[0])
	for i := range nodes {
		nodes[i] = start1(t, cfg[i])
	}
	more := ann.mkdir(nodes[1], "root", "more")
	ann.share(nodes[1], more, "bob") // of which is told after what comes again
	want := []string{plans, more}
	slices.Sort(want)
	if got := bob.told(nodes[0], 2); !slices.Equal(got, want) {
		t.Errorf("bob is told of %v, want %v", got, want)
	}
	var noted int
	err := nodes[0].platform.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM activity a JOIN users u ON u.account_id = a.account_id
		WHERE u.id = ? AND a.verb = 'notice.told'`, bob.id).Scan(&noted)
	if err != nil || noted != 2 {
		t.Errorf("the log has %d notices of bob, %v", noted, err)
	}
}

// rewind makes an installation that has stopped forget how far its consumer of notices was.
func rewind(t *testing.T, cfg config.Config) {
	t.Helper()
	if cfg.Kafka != nil {
		testbacking.Rewind(t, servicetest.URL(t, servicetest.Kafka), cfg.Namespace+".notices.notices")
		return
	}
	db, err := sqldb.Open(t.Context(), sqldb.Options{MySQL: databaseURL(cfg.MySQL)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // it has written
	err = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE cursors SET position = 0 WHERE consumer = 'notices'")
		if err == nil && n == 0 {
			err = fmt.Errorf("there is no such consumer")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// follow checks the change feed of a user's changes, made at one instance and then at the other.
func follow(t *testing.T, nodes []*node, p person) {
	t.Helper()
	const each, rounds = 10, 3
	clients := make([]*client.Client, len(nodes))
	for i, n := range nodes {
		var err error
		if clients[i], err = client.New(client.Options{BaseURL: n.url, Token: p.token}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list := func(after string) (ids []string) {
		for h, err := range clients[0].Activity(ctx, client.ActivityQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			if h.ID == after {
				break
			}
			ids = append(ids, h.ID)
		}
		slices.Reverse(ids)
		return ids
	}
	all := list("")
	first := all[len(all)-1]
	folder := p.mkdir(nodes[0], "root", "followed")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range each*rounds - 1 {
			body := fmt.Appendf(nil, `{"type":"folder","parent":%q,"name":"%d"}`, folder, i)
			if status, answer := nodes[i%2].send(t, p.token, "POST", "/api/v1/nodes", body); status != http.StatusCreated {
				t.Errorf("make a folder: %d %s", status, answer)
			}
		}
	}()
	var heard []string
	last := first
	for round := range rounds {
		for h, err := range clients[round%2].FollowActivity(ctx, client.ActivityQuery{}, last) {
			if err != nil {
				t.Fatal(err)
			}
			heard, last = append(heard, h.ID), h.ID
			if len(heard)%each == 0 {
				break
			}
		}
	}
	<-done
	if want := list(first); !slices.Equal(heard, want) {
		t.Errorf("followed were %v, there are %v", heard, want)
	}
}
