package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestSecretsDoNotReachTheLog(t *testing.T) {
	t.Parallel()
	link := &url.URL{Scheme: "https", Host: "x", Path: "/c", RawQuery: "sig=hunter2"}
	for _, format := range []Format{FormatText, FormatJSON} {
		var out bytes.Buffer
		log, err := NewLogger(&out, slog.LevelInfo, format)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("GET /api/v1/nodes/1/content?sig=hunter2 done",
			"password", "hunter2", "X-Api-Token", "hunter2", "Authorization", "Bearer hunter2", "client_secret", []byte("hunter2"),
			slog.Group("cookie", "value", "hunter2"),
			"path", "/nodes/1?sig=hunter2", "url", link,
			"error", &url.Error{Op: "Get", URL: link.String(), Err: errors.New("refused")},
			KeyUpload, "kept", "question", "is this kept? yes")
		log.Debug("too fine")
		got := out.String()
		if strings.Contains(got, "hunter2") {
			t.Errorf("%s: a secret in %s", format, got)
		}
		for _, want := range []string{"kept", "is this kept? yes", "refused", "/nodes/1?[redacted]"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is missing in %s", format, want, got)
			}
		}
		if strings.Contains(got, "too fine") {
			t.Errorf("%s: the level does not hold", format)
		}
	}
	if _, err := NewLogger(nil, slog.LevelInfo, "xml"); err == nil {
		t.Error("format xml was accepted")
	}
}

func TestHandlerServesMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	m.Gauge("depth", "How deep.", func() float64 { return 7 })
	m.CounterFunc("seen_total", "Seen.", func() float64 { return 3 })
	add := m.Counter("done_total", "Done.", "route")
	add(2, "GET /x")
	observe := m.Histogram("took_seconds", "Took.", []float64{1, 10}, "route")
	observe(5, "GET /x")
	m.Gauges("waits", "Wait.", []string{"kind"}, func(set func(float64, ...string)) { set(4, "park"); set(5, "unlink") })
	m.Counters("kept_total", "Kept.", nil, func(set func(float64, ...string)) { set(6) })
	m.Counter("never_total", "Has not happened.")
	m.Gauges("absent", "Nothing is known.", nil, func(func(float64, ...string)) {})
	m.Histograms("late_seconds", "Late.", []string{"kind"}, func(set func(HistogramState, ...string)) {
		set(HistogramState{Bounds: []float64{0.1, 1}, Counts: []uint64{3, 2, 1}, Sum: 9}, "park")
	})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		"smartdrive_depth 7", "smartdrive_seen_total 3", `smartdrive_done_total{route="GET /x"} 2`,
		`smartdrive_took_seconds_bucket{route="GET /x",le="1"} 0`, `smartdrive_took_seconds_bucket{route="GET /x",le="10"} 1`,
		"smartdrive_build_info{", "go_goroutines", `smartdrive_waits{kind="park"} 4`, `smartdrive_waits{kind="unlink"} 5`, "smartdrive_kept_total 6",
		"smartdrive_never_total 0", `smartdrive_late_seconds_bucket{kind="park",le="0.1"} 3`, `smartdrive_late_seconds_bucket{kind="park",le="1"} 5`,
		`smartdrive_late_seconds_bucket{kind="park",le="+Inf"} 6`, `smartdrive_late_seconds_sum{kind="park"} 9`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s is missing in:\n%s", want, w.Body)
		}
	}
	if strings.Contains(w.Body.String(), "smartdrive_absent") {
		t.Error("a figure that is not known is shown")
	}
}
