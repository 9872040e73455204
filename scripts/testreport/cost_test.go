package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPackageOverBudgetFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "budget")
	if err := os.WriteFile(path, []byte("# seconds of CPU\n* 10\ninternal/usecase/upload 60 # histories\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := readBudget(path)
	if err != nil {
		t.Fatal(err)
	}
	r := newReport()
	err = r.read(strings.NewReader(`=== the first run
{"Action":"output","Package":"example.org/smartdrive/internal/usecase/upload","Output":"cost: 61.50 s of CPU\n"}
{"Action":"pass","Package":"example.org/smartdrive/internal/usecase/upload","Elapsed":40}
{"Action":"output","Package":"example.org/smartdrive/internal/domain/tree","Output":"cost: 9.99 s of CPU\n"}
{"Action":"pass","Package":"example.org/smartdrive/internal/domain/tree","Elapsed":400}
`))
	if err != nil {
		t.Fatal(err)
	}
	over := b.over(r.packages)
	if len(over) != 1 || !strings.Contains(over[0], "internal/usecase/upload used 62 s of CPU  (the first run); its budget is 60 s") {
		t.Errorf("over their budgets are %q", over)
	}
}

func TestUnreadableBudgetIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "budget")
	for _, text := range []string{"internal/usecase/upload", "internal/usecase/upload many", "internal/usecase/upload 1 2"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := readBudget(path); err == nil {
			t.Errorf("%q was read as %v", text, b)
		}
	}
}

func TestAPackageThatDoesNotBuildIsAFailure(t *testing.T) {
	t.Parallel()
	r := newReport()
	err := r.read(strings.NewReader(`{"Action":"start","Package":"example.org/smartdrive/internal/domain/tree"}
{"Action":"fail","Package":"example.org/smartdrive/internal/domain/tree","Elapsed":0,"FailedBuild":"example.org/smartdrive/internal/domain/tree"}
{"Action":"fail","Package":"example.org/smartdrive/internal/domain/quota","Test":"TestX","Elapsed":0}
{"Action":"fail","Package":"example.org/smartdrive/internal/domain/quota","Elapsed":0}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.failed) != 2 {
		t.Errorf("failures: %q", r.failed)
	}
}
