package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOutageLogsBeginningAndEnd(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	var o Outage
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{nil, errors.New("refused"), errors.New("refused"), errors.New("gone"), nil, nil} {
		o.Record(t.Context(), log, "Redis does not answer", err, slog.String("at", "cache"))
		o.Record(ended, log, "Redis does not answer", context.Canceled)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `level=WARN msg="Redis does not answer" at=cache error=refused`) ||
		!strings.Contains(lines[1], `level=INFO msg="over: Redis does not answer" at=cache after=`) || !strings.Contains(lines[1], "failures=3") {
		t.Errorf("three failures in a row are\n%s", text.String())
	}
}

// TestLongOutageIsLoggedHourly shows the present cause of an outage once an hour.
func TestLongOutageIsLoggedHourly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		var o Outage
		for _, cause := range []string{"refused", "refused", "disk full", "disk full", "disk full"} {
			o.Record(t.Context(), log, "Redis does not answer", errors.New(cause))
			time.Sleep(30 * time.Minute)
		}
		if got := text.String(); strings.Count(got, "level=WARN") != 3 || strings.Count(got, `error="disk full"`) != 2 {
			t.Errorf("in two hours were logged\n%s", got)
		}
	})
}
