package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// retryLine finds a line that a loop logs each time that it fails.
var retryLine = regexp.MustCompile(`(?m)^\t+if [^\n]*err != nil [^\n]*&& ctx\.Err\(\) == nil \{\n\t+\S*[lL]og\.(Warn|Error)(Context)?\(` +
	`|[lL]og\.(Warn|Error)(Context)?\((ctx, )?"[^"\n]*(it retries|retrying|it is retried in|will be repeated)`)

// rarely is why a file may log each failure.
var rarely = map[string]string{
	"app/backup.go":                 "an hour passes between two copies",
	"engine/instance/lease.go":      "the job may have run for long before it failed",
	"usecase/upload/verifier.go":    "it is not tried again",
	"usecase/fsck/pages.go":         "10 minutes pass between two checks",
	"app/housekeeping.go":           "a minute or more passes between two runs, and their errors differ",
	"app/notices.go":                "a run of the housekeeping passes between two tries",
	"engine/stream/kafka/levels.go": "the errors of one topic alternate with the records of others",
	"engine/stream/kafka/topics.go": "failures of one topic alternate with successes of others",
	"engine/timer/deliver.go":       "each line names a timer",
	"intake/ingest/reconcile.go":    "each line names an account",
	"usecase/notify/mailer.go":      "each line names a user",
	"usecase/webhook/run.go":        "each line names a webhook, which pauses after it",
}

// TestRetriesAreLoggedAsOutages: a loop that retries logs one line when it begins to fail and one
// when it works again (telemetry.Outage).
func TestRetriesAreLoggedAsOutages(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || rarely[filepath.ToSlash(path)] != "" {
			return err
		}
		text, err := os.ReadFile(path)
		if line := retryLine.Find(text); line != nil {
			t.Errorf("%s logs each failed try:\n%s", path, line)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
