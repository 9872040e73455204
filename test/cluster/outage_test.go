package cluster

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/process"
)

// TestAnOutageKillsNoMessage: the database is down while many timers come due, once for parking and
// once for abandoning. No message becomes a dead letter. Afterwards each effect happens once: every
// upload advances step by step, and all bytes are released.
func TestAnOutageKillsNoMessage(t *testing.T) {
	depth.Deep(t)
	away := 25 * time.Second
	if os.Getenv("SMARTDRIVE_SOAK") != "" {
		away = 10 * time.Minute
	}
	const uploads = 150
	c := rig.New(t, rig.Options{})
	flags := []string{"--log-level", "warn"}
	a, b := startNode(t, c, "a", "api,scheduler,worker", flags...), startNode(t, c, "b", "scheduler,worker", flags...)
	j := newJudge(t, c)
	w := newCrowd(t, only(a), a, uploads)
	w.each(w.begin)
	last := j.lastSteps()
	outage := func(what string) {
		t.Helper()
		c.MySQL.Link.Cut(t)
		<-time.After(away)
		c.MySQL.Link.Heal(t)
		healed := time.Now()
		process.Eventually(t, 2*patience, what, func() error {
			var open, active int64
			err := j.db.QueryRowContext(t.Context(), `SELECT (SELECT COUNT(*) FROM uploads WHERE state <> 'gone'),
				(SELECT COUNT(*) FROM uploads WHERE state = 'active')`).Scan(&open, &active)
			if err == nil && (what == "parked" && active > 0 || what == "given up" && open > 0) {
				err = fmt.Errorf("%d are open, %d active", open, active)
			}
			return err
		})
		t.Logf("%s %s after the database was back", what, time.Since(healed).Round(100*time.Millisecond))
		for id, gen := range j.steps() {
			if gen > last[id] {
				t.Errorf("upload %s is at step %d, and %d was to be its last", id, gen, last[id])
			}
		}
		j.sums()
	}
	process.Eventually(t, patience, "some uploads are parked", func() error { return j.some(`state = 'parked'`) })
	outage("parked")
	w.received()
	process.Eventually(t, 2*patience, "some uploads are given up", func() error { return j.some(`state IN ('reclaiming', 'gone')`) })
	outage("given up")
	j.neverEarly(w.load)
	if n := deadLetters(t, c); n != 0 {
		t.Errorf("%d records went to the dead letters", n)
	}
	j.judge(a, b)
}

// steps returns the current generation of each upload.
func (j *judge) steps() map[string]int64 { return j.gens(`SELECT id, gen FROM uploads`) }

// lastSteps returns the generation at which each idle upload ends after it is parked, reclaimed and
// gone. On a slow machine an upload that was parked before its part arrived has taken more steps.
func (j *judge) lastSteps() map[string]int64 {
	return j.gens(`SELECT id, gen + CASE state WHEN 'active' THEN 3 WHEN 'parked' THEN 2 WHEN 'reclaiming' THEN 1 ELSE 0 END FROM uploads`)
}

// gens returns the result of a query for (id, generation) as a map.
func (j *judge) gens(query string) map[string]int64 {
	j.t.Helper()
	all := map[string]int64{}
	j.each(query, func(scan func(...any) error) error {
		var id string
		var gen int64
		err := scan(&id, &gen)
		all[id] = gen
		return err
	})
	return all
}

// some returns an error if no upload matches the condition.
func (j *judge) some(where string) error {
	var n int
	err := j.db.QueryRowContext(j.t.Context(), `SELECT COUNT(*) FROM uploads WHERE `+where).Scan(&n)
	if err == nil && n == 0 {
		err = fmt.Errorf("there is none that is %s", where)
	}
	return err
}

// deadLetters returns the total number of dead letters.
func deadLetters(t *testing.T, c *rig.Cluster) (n int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Kafka.Link.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), "smartdrive.dlq")
	if err != nil || ends.Error() != nil {
		t.Fatalf("read the ends of the topic of dead letters: %v, %v", err, ends.Error())
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}
