package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/test/process"
)

// wayOf waits until the way of a park timer ends with its being applied, and returns it.
func wayOf(t *testing.T, n *node, token, id string) (steps []string, view rest.TimerView) {
	t.Helper()
	process.Eventually(t, patience, "the way of its timer is complete", func() error {
		status, body := n.send(t, token, "GET", "/api/v1/admin/timers/park/"+id, nil)
		view = rest.TimerView{}
		if err := json.Unmarshal(body, &view); status != http.StatusOK || err != nil {
			return fmt.Errorf("%d %s", status, body)
		}
		steps = nil
		for _, s := range view.Trace {
			steps = append(steps, s.Step)
		}
		if !slices.Contains(steps, "applied") || view.Pending { // it is settled after it was applied
			return fmt.Errorf("%s", body)
		}
		return nil
	})
	return steps, view
}

// collector keeps the names of the spans of each trace that it is sent.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	traces map[string][]string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{traces: map[string][]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []struct{ TraceID, SpanID, ParentSpanID, Name, StartTimeUnixNano, EndTimeUnixNano string }
				}
			}
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &sent) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range sent.ResourceSpans[0].ScopeSpans[0].Spans {
			if len(s.TraceID) == 32 && len(s.SpanID) == 16 && len(s.StartTimeUnixNano) == 19 && s.StartTimeUnixNano <= s.EndTimeUnixNano {
				c.traces[s.TraceID] = append(c.traces[s.TraceID], s.Name)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// whole returns the spans of the trace of a park timer that was applied; sorted.
func (c *collector) whole() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, names := range c.traces {
		if slices.Contains(names, "timer park") && slices.Contains(names, "fired") {
			return slices.Sorted(slices.Values(names))
		}
	}
	return nil
}

// D7: a timer's steps are shown from armed to applied, also after it is done, and a trace collector
// receives them as one trace.
func TestTimerStepsAreShown(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	c := newCollector(t)
	n := start1(t, testConfig(t, "--upload-idle", "100ms", "--otlp", c.URL))
	token := n.login(t)
	id, _ := begin(t, n, token, "/quiet", 20_000_000)
	parked(t, n, token, id)
	steps, view := wayOf(t, n, token, id)
	if diff := strings.Join(steps, " "); diff != "armed fired applied" || view.Pending {
		t.Errorf("its way is %s, pending %v", diff, view.Pending)
	}
	for i := 1; i < len(view.Trace); i++ {
		if view.Trace[i].At < view.Trace[i-1].At || view.Trace[i].Began > view.Trace[i].At {
			t.Errorf("the times are %+v", view.Trace)
		}
	}
	if status, _ := n.send(t, token, "GET", "/api/v1/admin/timers/park/0198c0de-0000-7000-8000-000000000000", nil); status != http.StatusNotFound {
		t.Errorf("one that never was: %d", status)
	}
	process.Eventually(t, patience, "the collector has the trace", func() error {
		if got := strings.Join(c.whole(), " "); got != "applied fired timer park" {
			return fmt.Errorf("%q of %v", got, c.traces)
		}
		return nil
	})
}
