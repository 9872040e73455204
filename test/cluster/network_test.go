package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/process"
)

// wrongs are the network faults before a component.
var wrongs = []struct {
	name string
	make func(testing.TB, *rig.Link)
}{
	{"cut", func(t testing.TB, l *rig.Link) { l.Cut(t) }},
	{"slow", func(t testing.TB, l *rig.Link) { l.Delay(t, 100*time.Millisecond) }},
	{"reset", func(t testing.TB, l *rig.Link) { l.Reset(t) }},
	{"silent", func(t testing.TB, l *rig.Link) { l.Silence(t) }},
	{"deaf", func(t testing.TB, l *rig.Link) { l.LoseReplies(t) }},
}

// TestNetworkFaults: the network before each component fails in each way, under load. Requests are
// answered within a bounded time, correctly or with a retryable error (see reply.unclear). After
// the fault everything works again.
func TestNetworkFaults(t *testing.T) {
	depth.Deep(t)
	seed := uint64(number(t, "SMARTDRIVE_CLUSTER_SEED", int(time.Now().UnixNano()%1_000_000)))
	t.Logf("SMARTDRIVE_CLUSTER_SEED=%d", seed)
	x := newChaos(t, seed)
	all := x.faults()
	if os.Getenv("SMARTDRIVE_SOAK") == "" {
		all = all[:min(len(all), number(t, "SMARTDRIVE_CLUSTER_FAULTS", 8))]
	}
	x.load.run()
	for _, f := range all {
		if x.load.broken() {
			break
		}
		x.working()
		t.Logf("%s %s", time.Now().UTC().Format("15:04:05.000"), f.name)
		f.make(t, f.link)
		x.during(f.name)
		f.link.Heal(t)
		x.probe.measure(f.name, x.to)
		x.alive()
	}
	x.load.exercised()
	x.load.end()
	t.Logf("%d faults; %s", len(all), x.load)
	t.Logf("from the end of a fault on, median (longest); serves: the slowest answer during it\n%s", x.probe.table())
	if !t.Failed() {
		x.judge()
	}
}

// fault is a network fault before one component.
type fault struct {
	name string
	link *rig.Link
	make func(testing.TB, *rig.Link)
}

// faults returns all faults in random order, taking the components in turn.
func (x *chaos) faults() (all []fault) {
	components := []*rig.Component{x.cluster.MySQL, x.cluster.Redis, x.cluster.Kafka, x.cluster.S3}
	orders := make([][]int, len(components))
	for i := range orders {
		orders[i] = x.rand.Perm(len(wrongs))
	}
	for n := range wrongs {
		for i, c := range components {
			w := wrongs[orders[i][n]]
			all = append(all, fault{c.Name + " " + w.name, c.Link, w.make})
		}
	}
	return all
}

// during sends every kind of request once during a fault and waits for all responses. Each must be
// a success or retryable. It records the slowest response time.
func (x *chaos) during(name string) {
	x.t.Helper()
	w := newWire(x.to, x.probe.token)
	defer w.http.CloseIdleConnections()
	began := time.Now()
	unique := fmt.Sprintf("during-%d-%d", began.UnixNano(), rand.Uint64())
	var asking sync.WaitGroup
	for _, q := range []request{
		{method: "GET", path: "/nodes/" + x.probe.known},
		{method: "GET", path: "/nodes/" + x.probe.known + "/content"},
		{method: "PUT", path: "/files/" + unique, body: []byte("small")},
		{method: "POST", path: "/uploads", body: map[string]any{"path": "/" + unique + "-up", "size": 100, "part_size": partSize, "fingerprint": unique}},
		{method: "GET", path: "/uploads"},
	} {
		for range 3 {
			asking.Go(func() {
				r := w.send(context.Background(), q)
				if err := r.unclear(); err != nil || r.err != nil {
					x.load.fail("%s: %s %s: %v %s", name, q.method, q.path, err, r)
				}
			})
		}
	}
	asking.Wait()
	x.probe.note(name, "serves", time.Since(began))
}

// working waits until the clients have worked for a while.
func (x *chaos) working() {
	x.t.Helper()
	before := x.load.done()
	process.Eventually(x.t, patience, "the clients work", func() error {
		if n := x.load.done() - before; n < 20 && !x.load.broken() {
			return fmt.Errorf("%d requests have succeeded", n)
		}
		return nil
	})
}
