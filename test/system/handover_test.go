package system_test

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

const perFolder = 50 // files in the drive to hand over

// TestAHandoverSurvivesKills: the server is killed repeatedly while the drive of a leaving user is
// handed over. Each file arrives once, with its id, content and old version; nothing stays behind;
// both accounts are charged correctly; and both checkers find no error.
func TestAHandoverSurvivesKills(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGKILL on Windows")
	}
	l := &legacy{site: rig.New(t), many: depth.Pick(600, 1200, 20_000), ids: map[string]string{}}
	l.s = l.site.Start(t)
	ann, bob := l.s.NewUser(t, "ann", 1<<30), l.s.NewUser(t, "bob", 1<<30)
	l.plant(t, ann)
	before := l.s.Ledger(t, "ann")
	l.root = l.s.Login(t, "admin")
	id := ann.Get(t, "/me").JSON(t, http.StatusOK)["user"].(map[string]any)["id"].(string)
	to := bob.Get(t, "/me").JSON(t, http.StatusOK)["user"].(map[string]any)["id"].(string)
	l.path = "/admin/users/" + id + "/handover"
	l.root.Post(t, l.path, map[string]any{"to_user": to}).Is(t, http.StatusCreated)
	kills := l.interrupt(t, depth.Pick(2, 4, 40))
	bob = bob.At(l.s)
	found := 0
	for i := range l.many / perFolder {
		folder := bob.Node(t, fmt.Sprintf("/Files of ann/f%d", i))["id"].(string)
		for _, item := range bob.Get(t, "/nodes/"+folder+"/children?limit=1000").Items(t) {
			name := fmt.Sprintf("/f%d/%v", i, item["name"])
			if l.ids[name] != item["id"] {
				t.Errorf("%s came as %v, and was %s", name, item["id"], l.ids[name])
			}
			found++
		}
	}
	if found != l.many {
		t.Errorf("%d of %d files came", found, l.many)
	}
	bob.Holds(t, "/Files of ann/f1/3.txt", history.Content{Seed: 2, Size: 4000})
	if n := len(bob.Get(t, "/nodes/"+l.ids["/f1/3.txt"]+"/versions").Items(t)); n != 2 {
		t.Errorf("it has %d versions", n)
	}
	if got := l.s.Ledger(t, "ann"); got.Finished != 0 {
		t.Errorf("ann is charged %+v", got)
	}
	if got := l.s.Ledger(t, "bob"); got.Finished != before.Finished {
		t.Errorf("bob is charged %+v for what ann was charged %+v", got, before)
	}
	l.s.End(t)
	sound(t, l.site)
	t.Logf("%d files, %d kills", l.many, kills)
}

// legacy is a drive to hand over.
type legacy struct {
	site *rig.Site
	s    *rig.Server
	root rig.User
	path string
	many int
	ids  map[string]string // by path
}

func (l *legacy) plant(t *testing.T, u rig.User) {
	t.Helper()
	api, err := client.New(client.Options{BaseURL: u.URL, Token: u.Token})
	if err != nil {
		t.Fatal(err)
	}
	var items []client.BatchItem
	flush := func() {
		answers, err := api.Batch(t.Context(), items)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			l.ids[items[i].Path] = a.Node.ID
		}
		items = nil
	}
	for i := range l.many {
		items = append(items, client.BatchItem{
			Op: client.BatchPut, Path: fmt.Sprintf("/f%d/%d.txt", i/perFolder, i%perFolder), Parents: true, Content: fmt.Appendf(nil, "file %d", i),
		})
		if len(items) == client.MaxBatchItems {
			flush()
		}
	}
	flush()
	u.Put(t, "/f1/3.txt", history.Content{Seed: 2, Size: 4000})
}

// interrupt kills the server at the beginning, and again after further progress, at most most
// times. It waits for the end and returns the number of kills.
func (l *legacy) interrupt(t *testing.T, most int) (kills int) {
	t.Helper()
	seen := -1.0
	again := func() {
		l.s.Kill()
		kills++
		l.s = l.site.Start(t)
		l.root = l.root.At(l.s)
	}
	for again(); kills < most; {
		now := l.root.Get(t, l.path).JSON(t, http.StatusOK)
		if now["state"] != "running" {
			break
		}
		if now["done"].(float64) <= seen {
			continue
		}
		seen = now["done"].(float64)
		again()
	}
	process.Eventually(t, rig.Patience*5, "the handover goes on to its end", func() error {
		if now := l.root.Get(t, l.path).JSON(t, http.StatusOK); now["state"] != "done" {
			return fmt.Errorf("it is %v: %v of %v", now["state"], now["done"], now["total"])
		}
		return nil
	})
	return kills
}
