package system_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

// TestManyItemsSurviveAKill: a request trashes all files of a folder, and the server is killed
// while it runs. The same happens to its undo. In the end each file is in the folder once, and none
// is in the trash.
func TestManyItemsSurviveAKill(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGKILL on Windows")
	}
	sizes := []int{depth.Pick(500, 800, 5000)}
	if most := depth.Pick(0, 0, 100_000); most > 0 {
		sizes = append(sizes, most)
	}
	for _, many := range sizes {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			t.Parallel()
			site := rig.New(t)
			m := &heap{site: site, many: many, s: site.Start(t)}
			m.u = m.s.NewUser(t, "ann", 1<<30)
			m.plant(t)

			gone := m.interrupted(t, m.u.Post(t, "/operations", map[string]any{"kind": "trash", "all": map[string]any{"folder": m.folder}}))
			m.counts(t, "the folder", "/nodes/"+m.folder+"/children", 0)
			m.counts(t, "the trash", "/trash", many)

			m.interrupted(t, m.u.Post(t, "/operations/"+gone+"/undo", nil))
			m.counts(t, "the folder after the undo", "/nodes/"+m.folder+"/children", many)
			m.counts(t, "the trash after the undo", "/trash", 0)
			m.s.End(t)
			sound(t, site)
		})
	}
}

// heap is a folder with many files.
type heap struct {
	site   *rig.Site
	s      *rig.Server
	u      rig.User
	many   int
	folder string
}

// plant creates the files.
func (m *heap) plant(t *testing.T) {
	t.Helper()
	m.folder = m.u.Post(t, "/nodes", map[string]any{"type": "folder", "path": "/many"}).JSON(t, http.StatusCreated)["id"].(string)
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(m.many) && !t.Failed(); i = next.Add(1) {
				r, err := m.u.Try(t, http.MethodPut, fmt.Sprintf("/files/many/%d.txt", i), []byte("the same"))
				if err != nil || r.StatusCode != http.StatusCreated {
					t.Errorf("file %d: %v %v", i, r, err)
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// interrupted kills the server while an operation is running, restarts it, and waits for the end of
// the operation. It returns the operation's id.
func (m *heap) interrupted(t *testing.T, asked rig.Reply) string {
	t.Helper()
	asked.Is(t, http.StatusCreated)
	var op struct {
		ID, State           string
		Done, Failed, Total int
	}
	if err := json.Unmarshal(asked.Bytes, &op); err != nil {
		t.Fatal(err)
	}
	look := func() bool {
		r := m.u.Get(t, "/operations/"+op.ID).Is(t, http.StatusOK)
		return json.Unmarshal(r.Bytes, &op) == nil
	}
	for op.Done == 0 && op.State == "running" {
		look()
	}
	if op.State != "running" {
		t.Fatalf("there is no middle to be killed in: %+v", op)
	}
	m.s.Kill()
	m.s = m.site.Start(t)
	m.u = m.u.At(m.s)
	process.Eventually(t, 20*time.Minute, "the operation goes on to its end", func() error {
		if look(); op.State == "running" {
			return fmt.Errorf("%d of %d", op.Done, op.Total)
		}
		return nil
	})
	if op.State != "done" || op.Done != m.many || op.Failed != 0 || op.Total != m.many {
		t.Fatalf("the operation ended as %+v", op)
	}
	return op.ID
}

// counts fails the test unless a list has want entries, without duplicates.
func (m *heap) counts(t *testing.T, what, list string, want int) {
	t.Helper()
	seen := map[string]bool{}
	for more := ""; ; {
		page := m.u.Get(t, list+"?limit=1000"+more).JSON(t, http.StatusOK)
		for _, item := range page["items"].([]any) {
			seen[item.(map[string]any)["name"].(string)] = true
		}
		next, ok := page["next_cursor"].(string)
		if !ok {
			break
		}
		more = "&cursor=" + url.QueryEscape(next)
	}
	if len(seen) != want {
		t.Errorf("%s has %d entries, not %d", what, len(seen), want)
	}
}
