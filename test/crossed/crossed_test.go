package crossed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

const people = 64

// 64 users run every kind of operation concurrently through two instances.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	for _, accounts := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d accounts", accounts), func(t *testing.T) {
			t.Parallel()
			site, two := open(t)
			whos := make([]drive.Who, accounts)
			for i := range whos {
				whos[i] = site.Account(t, 30_000)
			}
			steps := depth.Pick(3, 5, 12)
			var all sync.WaitGroup
			for i := range people {
				p := &person{instance: two[i%2], who: whos[i/2%accounts], rand: rand.New(rand.NewPCG(uint64(i), 7))}
				all.Go(func() { p.live(t, steps) })
			}
			all.Wait()
			check(t, two[0].db)
			t.Logf("%d transactions, %d ran again", two[0].db.Stats().Writes.Load()+two[1].db.Stats().Writes.Load(),
				two[0].db.Stats().Reruns.Load()+two[1].db.Stats().Reruns.Load())
		})
	}
}

func (p *person) live(t *testing.T, steps int) {
	acts := map[string]func(context.Context) error{
		"put": p.put, "begin": p.begin, "begin unknown": p.beginUnknown, "mkdir": p.mkdir, "move": p.move, "copy": p.copy,
		"trash": p.trash, "restore": p.restore, "remove": p.remove, "empty": p.empty, "go back": p.goBack,
	}
	order := []string{
		"put", "put", "put", "put", "begin", "begin unknown", "mkdir", "mkdir", "move", "move", "move", "copy", "trash", "restore",
		"remove", "empty", "go back",
	}
	for range steps {
		name := order[p.rand.IntN(len(order))]
		if err := acts[name](context.Background()); !allowed(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two concurrent requests move each of two folders into the other one. Only one succeeds; otherwise
// the folders would form an unreachable cycle.
func TestCrossedMovesMakeNoCycle(t *testing.T) {
	t.Parallel()
	site, two := open(t)
	who := site.Account(t, 0)
	for round := range 50 {
		var ids [2]drive.NodeID
		for i := range ids {
			r, err := two[0].files.Mkdir(t.Context(), who, files.Mkdir{Name: drive.Name(fmt.Sprintf("%d-%d", round, i))})
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = r.Node.ID
		}
		var errs [2]error
		var both sync.WaitGroup
		for i := range two {
			both.Go(func() {
				_, errs[i] = two[i].files.Patch(context.Background(), who, ids[i], files.Patch{Parent: ids[1-i]})
			})
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !allowed(errs[0]) || !allowed(errs[1]) {
			t.Fatalf("round %d: %v and %v", round, errs[0], errs[1])
		}
	}
	check(t, two[0].db)
}

// All make the same folders: each is made once, and everybody gets it.
func TestSameFoldersAtOnce(t *testing.T) {
	t.Parallel()
	site, two := open(t)
	who := site.Account(t, 0)
	var all sync.WaitGroup
	for i := range people {
		p := &person{instance: two[i%2], who: who, rand: rand.New(rand.NewPCG(uint64(i), 8))}
		all.Go(func() {
			for n := range 5 {
				path := uploadtest.Path(t, fmt.Sprintf("/x/y/%d", n))
				_, err := p.files.Mkdir(context.Background(), who, files.Mkdir{Path: path, Parents: true, Name: drive.Name(fmt.Sprint(i))})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	check(t, two[0].db)
	var n int
	if err := two[0].db.QueryRow(t.Context(), "SELECT node_count FROM trees WHERE account_id = ?", who.Account).Scan(&n); err != nil || n != 2+5+5*people {
		t.Errorf("%d nodes, want %d; %v", n, 2+5+5*people, err)
	}
}
