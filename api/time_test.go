package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"example.org/smartdrive/api"
)

func TestTimeKeepsMillisecondsInUTC(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"2026-01-02T03:04:05Z"`:           `"2026-01-02T03:04:05.000Z"`,
		`"2026-01-02T03:04:05.6789+08:00"`: `"2026-01-01T19:04:05.678Z"`,
		`"1969-12-31T23:59:59.9999Z"`:      `"1969-12-31T23:59:59.999Z"`,
		`null`:                             `"0001-01-01T00:00:00.000Z"`,
	} {
		var at api.Time
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(map[string]any{"at": at})
		if err != nil || string(got) != `{"at":`+want+`}` {
			t.Errorf("%s became %s, %v", text, got, err)
		}
	}
	var at api.Time
	for _, text := range []string{`""`, `1`, `"yesterday"`, `{}`} {
		if err := json.Unmarshal([]byte(text), &at); err == nil {
			t.Errorf("%s was parsed as %v", text, at)
		}
	}
	if local := (api.Time{Time: time.Date(2026, 1, 2, 0, 0, 0, 0, time.FixedZone("", 3600))}); local.String() != "2026-01-01T23:00:00.000Z" {
		t.Errorf("printed %v", local)
	}
}
