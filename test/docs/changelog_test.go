package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/telemetry"
)

// TestChangelogHasThisRelease: the newest section of CHANGELOG.md is of the version that the
// program reports, unless that is under development.
func TestChangelogHasThisRelease(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## \[([^]]+)\] - \d{4}-\d\d-\d\d$`).FindSubmatch(text)
	version := telemetry.ReadBuild().Version
	if newest == nil || !strings.HasSuffix(version, "-dev") && string(newest[1]) != version {
		t.Errorf("the newest release in CHANGELOG.md is %q, and the program is %s", newest, version)
	}
}

// TestFragmentsAreNamed: a release folds each file of changelog/unreleased, which may be empty.
func TestFragmentsAreNamed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "changelog", "unreleased", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !regexp.MustCompile(`^\d{4}-[a-z0-9-]+\.md$`).MatchString(filepath.Base(file)) {
			t.Errorf("%s is not named NNNN-subject.md", file)
		}
	}
}
