package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/process"
)

// TestSentinelsReplaceTheMaster: the Redis master is killed under load and its replica takes over.
// Once the old master is back as a replica, the new one is killed as well. Redis loses its last
// acknowledged writes each time. Clients notice a pause, but nothing acknowledged is missing, no
// balance is wrong, and no upload is abandoned early.
func TestSentinelsReplaceTheMaster(t *testing.T) {
	depth.Deep(t)
	c := rig.New(t, rig.Options{NoKafka: true, RedisSentinel: true})
	a, b := startNode(t, c, "a", ""), startNode(t, c, "b", "")
	to := &balancer{}
	to.add(a)
	to.add(b)
	l, p, j := newLoad(t, to, a, uint64(number(t, "SMARTDRIVE_CLUSTER_SEED", 11)), 4), newProbe(t, a), newJudge(t, c)
	l.run()
	master, replica := c.RedisNodes[0], c.RedisNodes[1]
	for _, victim := range []*rig.Component{master, replica} {
		l.goesOn(t, 50)
		victim.Kill(t)
		began := time.Now()
		p.measure("the master", to)
		t.Logf("everything works %s after the master was killed", time.Since(began).Round(time.Millisecond))
		victim.Start(t) // the Sentinels make it a replica
		replicated(t, master, replica)
	}
	l.goesOn(t, 50)
	l.exercised()
	l.end()
	t.Logf("%s", l)
	t.Logf("recovery:\n%s", p.table())
	if t.Failed() {
		return
	}
	l.compare()
	j.quiet(patience)
	l.compare()
	j.neverEarly(l)
	j.judge(a, b)
}

// goesOn waits for more successful requests.
func (l *load) goesOn(t *testing.T, more int) {
	t.Helper()
	before := l.done()
	process.Eventually(t, patience, "clients go on", func() error {
		if n := l.done() - before; n < more && !l.broken() {
			return fmt.Errorf("%d of %d requests have succeeded", n, more)
		}
		return nil
	})
}

// replicated waits until one of the servers is an up-to-date replica of another.
func replicated(t *testing.T, servers ...*rig.Component) {
	t.Helper()
	process.Eventually(t, patience, "one is the other's replica", func() error {
		for _, one := range servers {
			db := redis.NewClient(&redis.Options{Addr: one.Direct(), Protocol: 2, DisableIdentity: true})
			info := db.Info(t.Context(), "replication").Val()
			db.Close()
			if strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up") {
				return nil
			}
		}
		return errors.New("neither is")
	})
}
