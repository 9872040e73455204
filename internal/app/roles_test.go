package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/test/process"
)

// Each role runs in its own process. Only the api role serves requests, every process serves its
// health checks, and together they behave like one process with all roles.
func TestRolesInProcessesOfTheirOwn(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	for _, broker := range []bool{false, true} {
		t.Run(fmt.Sprintf("kafka=%t", broker), func(t *testing.T) {
			args := append(clusterArgs(t, broker), "--upload-idle", "1s")
			nodes := map[string]*node{}
			for _, role := range []string{"api", "scheduler", "worker"} {
				nodes[role] = start1(t, testConfig(t, append(args, "--roles", role)...))
			}
			api := nodes["api"]
			token := api.login(t)
			for role, n := range nodes {
				n.wantReady(t, role)
				if code, _ := n.send(t, "", "GET", "/metrics", nil); code != http.StatusOK {
					t.Errorf("%s shows no figures: %d", role, code)
				}
				if code, _ := n.send(t, token, "GET", "/api/v1/me", nil); (code == http.StatusOK) != (role == "api") {
					t.Errorf("%s answers %d", role, code)
				}
			}
			content := make([]byte, 9<<20)
			_, _ = rand.NewChaCha8([32]byte{2}).Read(content)
			upload2(t, []*node{api}, token, "/file", content)
			id, _ := begin(t, api, token, "/quiet", 20_000_000)
			parked(t, api, token, id)
			wantWay(t, nodes, token, id, broker)
			worker := nodes["worker"]
			taken := worker.sampleSoon(t, len(nodes))
			figures(t, worker, "smartdrive_instances_alive 3", fmt.Sprintf(`smartdrive_timers_pending{horizon="hour",kind="purge"} %d`, taken.pending[timer.Purge].Hour))
			figures(t, nodes["scheduler"], `smartdrive_timers_lateness_seconds_count{kind="park"}`, "smartdrive_timer_shards_owned")
			if broker {
				figures(t, worker, "smartdrive_outbox_lag_seconds", `smartdrive_consumer_behind_records{consumer="timers",topic="smartdrive.park"}`)
				figures(t, nodes["scheduler"], "smartdrive_stream_sent_total")
			}
			report, err := worker.console().fsck(t.Context(), fsck.Scope{})
			if err != nil || !report.Clean() {
				t.Errorf("fsck: %+v, %v", report, err)
			}
		})
	}
}

// wantWay checks that every instance reports the steps of a timer that ran on other instances (D7).
func wantWay(t *testing.T, nodes map[string]*node, token, id string, broker bool) {
	t.Helper()
	want := "armed fired applied"
	if broker {
		want = "armed fired published consumed applied"
	}
	process.Eventually(t, patience, "its way over all instances", func() error {
		steps, view := wayOf(t, nodes["api"], token, id)
		if got := strings.Join(steps, " "); got != want {
			return fmt.Errorf("its way is %s, want %s", got, want)
		}
		if first, last := view.Trace[0].Instance, view.Trace[len(steps)-1].Instance; broker == (first == last) {
			return fmt.Errorf("instance %s fired it, and %s applied it", first, last)
		}
		return nil
	})
}

// wantReady waits until an instance is ready and reaches Redis. A slow check counts as a failure
// for some time.
func (n *node) wantReady(t *testing.T, role string) {
	t.Helper()
	process.Eventually(t, patience, role+" is ready", func() error {
		if code, body := n.send(t, "", "GET", "/readyz", nil); code != http.StatusOK || !bytes.Contains(body, []byte(`"redis":"ok"`)) {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
}

// sampleSoon takes samples, not to wait for the next ones, until all instances are alive and the
// one timer of housekeeping is armed: for a minute at first, and then for an hour.
func (n *node) sampleSoon(t *testing.T, alive int) (taken samples) {
	t.Helper()
	process.Eventually(t, patience, "the samples", func() (err error) {
		taken, err = n.sampler.sample(t.Context())
		if h := taken.pending[timer.Purge]; err != nil || taken.alive != alive || h.Minute+h.Hour+h.Leased != 1 {
			return fmt.Errorf("%+v: %v", taken, err)
		}
		return nil
	})
	n.sampler.last.Store(&taken)
	return taken
}

// figures looks for figures that begin with each of want.
func figures(t *testing.T, n *node, want ...string) {
	t.Helper()
	_, body := n.send(t, "", "GET", "/metrics", nil)
	for _, w := range want {
		if !strings.Contains(string(body), w) {
			t.Errorf("no figure %s in\n%s", w, body)
		}
	}
}

func TestStatusOfOneInstance(t *testing.T) {
	t.Parallel()
	a, control, _ := opened(t)
	a.platform.Restored = true
	out, err := ask(t, control, http.MethodGet, "/api/v1/admin/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var s rest.Status
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	if s.Mode != "embedded" || s.Installation != a.platform.ID || len(s.Instances) != 1 || !s.Instances[0].Alive || s.Instances[0].Generation != 1 ||
		len(s.Failing) > 0 || s.Unsent != nil || !s.Restored {
		t.Errorf("status: %s", raw)
	}
}
