package cluster

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/cluster/rig"
)

// victim is an instance or a component to kill and restart.
type victim struct {
	name  string
	kill  func()
	start func() // returns when it serves
	node  *node  // nil for a component
}

// chaos is one run of random kills.
type chaos struct {
	t       *testing.T
	rand    *rand.Rand
	cluster *rig.Cluster
	to      *balancer
	load    *load
	probe   *probe
	nodes   []*node
	victims []victim
	deck    []victim // victims not chosen yet
	kills   int

	judgement *judge
}

// TestChaos: clients upload, resume, cancel, replace and delete through two instances, while one or
// two processes at a time are killed and restarted: an instance, the database, Redis, Kafka, the S3
// server. Every response must be correct or retryable. At the end everything acknowledged is there,
// every balance is the sum of its rows, and there are no orphaned objects.
func TestChaos(t *testing.T) {
	kills := number(t, "SMARTDRIVE_CLUSTER_KILLS", depth.Pick(2, 2, 9))
	if os.Getenv("SMARTDRIVE_SOAK") != "" {
		kills = number(t, "SMARTDRIVE_CLUSTER_KILLS", 500)
	}
	seed := uint64(number(t, "SMARTDRIVE_CLUSTER_SEED", int(time.Now().UnixNano()%1_000_000)))
	t.Logf("SMARTDRIVE_CLUSTER_SEED=%d", seed)
	x := newChaos(t, seed)
	x.load.run()
	for x.kills < kills && !t.Failed() && !x.load.broken() {
		x.round()
	}
	x.load.exercised()
	x.load.end()
	t.Logf("%d kills; %s", x.kills, x.load)
	t.Logf("recovery, median (longest):\n%s", x.probe.table())
	if t.Failed() {
		return
	}
	x.judge()
}

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	c := rig.New(t, rig.Options{})
	x := &chaos{t: t, cluster: c, rand: rand.New(rand.NewPCG(seed, 0)), to: &balancer{}}
	for _, kind := range [][2]string{{"api", "api"}, {"all", "api,scheduler,worker"}, {"background", "scheduler,worker"}} {
		n := startNode(t, c, kind[0], kind[1])
		x.nodes = append(x.nodes, n)
		x.victims = append(x.victims, x.instance(n))
		if n.answers() {
			x.to.add(n)
		}
	}
	for _, one := range []*rig.Component{c.MySQL, c.Redis, c.Kafka, c.S3} {
		x.victims = append(x.victims, victim{name: one.Name, kill: func() { one.Kill(t) }, start: func() { one.Start(t) }})
	}
	slices.SortFunc(x.victims, func(a, b victim) int { return strings.Compare(a.name, b.name) })
	first := x.nodes[slices.IndexFunc(x.nodes, (*node).answers)]
	x.load = newLoad(t, x.to, first, seed, 5)
	x.probe = newProbe(t, first)
	x.judgement = newJudge(t, c)
	return x
}

// answers reports whether the node serves the API.
func (n *node) answers() bool { return strings.Contains(n.roles, "api") }

// instance returns the victim for a node; it leaves the balancer while it is down.
func (x *chaos) instance(n *node) victim {
	return victim{name: n.name, node: n, kill: func() {
		x.to.remove(n)
		n.Kill()
	}, start: func() {
		n.Server = n.site.Start(x.t)
		if n.answers() {
			x.to.add(n)
		}
	}}
}

// round kills one or two victims at a random moment, restarts them, and waits until everything
// works.
func (x *chaos) round() {
	x.t.Helper()
	x.working()
	<-time.After(time.Duration(x.rand.Int64N(int64(time.Second)))) // a random moment
	victims := x.choose()
	names := make([]string, len(victims))
	for i, v := range victims {
		names[i] = v.name
		v.kill()
		x.kills++
	}
	name := strings.Join(names, "+")
	x.t.Logf("%s kill %d: %s", time.Now().UTC().Format("15:04:05.000"), x.kills, name)
	<-time.After(time.Duration(x.rand.Int64N(int64(3 * time.Second)))) // a random downtime
	for _, v := range victims {
		began := time.Now()
		v.start()
		x.probe.note(name, "serves", time.Since(began))
	}
	to := x.to
	if len(victims) == 1 && victims[0].node != nil && victims[0].node.answers() {
		to = only(victims[0].node)
	}
	x.probe.measure(name, to)
	x.alive()
}

// choose returns every victim alone before it returns pairs. Components precede instances, so that
// they are started first.
func (x *chaos) choose() []victim {
	if len(x.deck) == 0 {
		x.deck = slices.Clone(x.victims)
		x.rand.Shuffle(len(x.deck), func(i, j int) { x.deck[i], x.deck[j] = x.deck[j], x.deck[i] })
	}
	n := 1
	if x.kills >= len(x.victims) && x.rand.IntN(4) > 0 {
		n = 2
	}
	n = min(n, len(x.deck))
	chosen := x.deck[:n]
	x.deck = x.deck[n:]
	slices.SortStableFunc(chosen, func(a, b victim) int {
		if (a.node == nil) == (b.node == nil) {
			return strings.Compare(a.name, b.name)
		}
		if a.node == nil {
			return -1
		}
		return 1
	})
	return chosen
}

// alive fails the test if an instance ended without being killed.
func (x *chaos) alive() {
	x.t.Helper()
	for _, n := range x.nodes {
		select {
		case <-n.Ended():
			x.t.Fatalf("instance %s has ended by itself", n.name)
		default:
		}
	}
}

// judge compares the cluster with what the clients know, waits until no background work is left,
// and runs the judge.
func (x *chaos) judge() {
	x.t.Helper()
	x.load.compare()
	if x.t.Failed() {
		return
	}
	x.judgement.quiet(patience)
	x.load.compare()
	x.judgement.neverEarly(x.load)
	x.judgement.judge(x.nodes...)
}
