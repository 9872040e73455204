package rule

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/invoice-rules.md")

const docs = "../../../../docs/invoice-rules.md"

func TestTheDocsListTheRules(t *testing.T) {
	t.Parallel()
	if *update {
		if err := os.WriteFile(docs, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Markdown(), string(got)); diff != "" {
		t.Errorf("docs/invoice-rules.md differs; run make docs\n%s", diff)
	}
}
