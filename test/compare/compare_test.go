package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/testkit/servicetest"
)

const docs = "../../docs"

// TestMain runs the child of a comparison if this process was started as one.
func TestMain(m *testing.M) {
	if what := os.Getenv(childVariable); what != "" {
		os.Exit(beChild(context.Background(), what))
	}
	m.Run()
}

// TestComparisonsRun runs each comparison in its fast form and checks the claims that the articles
// and docs/comparisons.md make about the results.
func TestComparisonsRun(t *testing.T) {
	t.Parallel()
	for _, c := range comparisons {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(true, t.Output())
			for _, name := range c.needs {
				b.address[name] = servicetest.URL(t, servicetest.Service(name))
			}
			table, err := b.run(t.Context(), c)
			if errors.Is(err, errSkipped) {
				servicetest.Missing(t, servicetest.Service(c.name), err.Error())
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range []language{english, chinese} {
				var out bytes.Buffer
				if err := table.writeText(&out, l); err != nil {
					t.Fatal(err)
				}
				t.Log(out.String())
			}
			if len(table.rows) == 0 {
				t.Error("the table is empty")
			}
			for _, r := range table.rows {
				if len(r) != len(c.columns) {
					t.Errorf("a row of %d cells for %d columns: %v", len(r), len(c.columns), r)
				}
			}
			if check := claims[c.name]; check != nil {
				check(t, table)
			}
		})
	}
}

func all(tasks, n int) bool { return n == tasks }
func some(_, _ int) bool    { return true }
func none(_, n int) bool    { return n == 0 }

// claims check results that do not depend on the machine.
var claims = map[string]func(t *testing.T, table *table){
	"structures": func(t *testing.T, table *table) {
		t.Helper()
		if len(table.warnings) == 0 {
			t.Error("the missing timing wheel is not named")
		}
	},
	"places": func(t *testing.T, table *table) {
		t.Helper()
		for i, want := range []struct{ lost, forgotten func(tasks, n int) bool }{
			{all, none},  // the first snapshot is made after 60 s
			{none, some}, // pending writes are lost during a sync
			{none, none},
			{none, none},
			{none, all},
		} {
			r := table.rows[i]
			if tasks := r[4].(int); !want.lost(tasks, r[5].(int)) || !want.forgotten(tasks, r[6].(int)) {
				t.Errorf("%v: of %d tasks %d are lost, and %d push-backs", r[0], tasks, r[5], r[6])
			}
		}
	},
	"architectures": func(t *testing.T, table *table) {
		t.Helper()
		for _, r := range table.rows {
			name, killed, lost := r[0].(text).en, r[1] != nil, r[8].(int)
			if lost > 0 {
				t.Errorf("%s: %d uploads are lost", name, lost)
			}
			if killed {
				continue
			}
			least := 2.0 // begin and end
			if strings.HasPrefix(name, "database directly") {
				least = 11 // plus each part
			}
			if n := r[3].(float64); n < least || n >= least+1 { // more if a slow machine lets an upload come due early
				t.Errorf("%s: %v write transactions for each upload, want %v", name, n, least)
			}
		}
	},
	"writes": func(t *testing.T, table *table) {
		t.Helper()
		for i, want := range []func(parts int) int{
			func(parts int) int { return parts + 1 },
			func(parts int) int { return parts + 1 },
			func(int) int { return 1 },
			func(int) int { return 3 },
		} {
			for _, r := range [][]any{table.rows[i], table.rows[4+i]} {
				if parts, got := r[1].(int), r[2].(int); got != want(parts) {
					t.Errorf("%v: %d write transactions for %d parts, want %d", r[0], got, parts, want(parts))
				}
			}
		}
	},
	"buckets": func(t *testing.T, table *table) {
		t.Helper()
		for _, r := range table.rows {
			vain := r[6].(float64)
			if alone := r[2].(int) == 1; alone && vain > 0 {
				t.Errorf("%v: one scheduler alone has read %v %% in vain", r[0], vain)
			}
		}
	},
	"schemas": func(t *testing.T, table *table) {
		t.Helper()
		for _, r := range table.rows {
			if name, twice := r[0].(text).en, r[9].(int); strings.HasSuffix(name, "relation table") && twice > 0 {
				t.Errorf("%s: %d contents are stored twice", name, twice)
			}
		}
	},
	"rows": func(t *testing.T, table *table) {
		t.Helper()
		double := false
		for _, r := range table.rows {
			name, failed, tooMany := r[0].(text).en, r[2].(float64), r[3].(int)
			guarded := strings.ContainsAny(name[:1], "345S")
			if guarded && (failed > 0 || tooMany > 0) {
				t.Errorf("%s: %v errors, %d rows too many", name, failed, tooMany)
			}
			double = double || strings.HasSuffix(name, "; lock ends") && tooMany > 0
		}
		if !double {
			t.Error("no lock that ended let two in")
		}
	},
}

// TestAMissingServiceIsLoud: a missing service is reported prominently, and the command fails
// unless missing services are allowed.
func TestAMissingServiceIsLoud(t *testing.T) {
	t.Parallel()
	needy := comparison{name: "needy", needs: []string{"no_such_service"}}
	var log bytes.Buffer
	if err := runOne(t.Context(), needy, options{}, io.Discard, &log); err == nil {
		t.Error("a comparison without its service succeeds")
	}
	if !strings.Contains(log.String(), "NEEDY IS SKIPPED: MISSING: NO_SUCH_SERVICE") {
		t.Errorf("the log says %q", log.String())
	}
	lacking := comparison{name: "lacking", run: func(_ context.Context, _ *bench, t *table) error {
		t.lacking = append(t.lacking, same("NO ROWS OF IT"))
		return nil
	}}
	if err := runOne(t.Context(), lacking, options{}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "NO ROWS OF IT") {
		t.Error("a table that lacks rows:", err)
	}
	for _, c := range []comparison{needy, lacking} {
		if err := runOne(t.Context(), c, options{missingIsOK: true}, io.Discard, io.Discard); err != nil {
			t.Errorf("%s with --allow-missing: %v", c.name, err)
		}
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := command(t.Context(), []string{"structures", "--fast", "--json", "--lang", "en"}, &out, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var got struct {
		ID   string
		Rows []map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.ID != "C1" || len(got.Rows) == 0 {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, args := range [][]string{{"nonsense"}, {"--nonsense"}, {"--fast", "--record", t.TempDir()}} {
		if code := command(t.Context(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("compare %v: exit code %d", args, code)
		}
	}
}

// TestPagesAreCurrent: the pages contain the table of each comparison with its current columns, and
// the commands that they show are valid.
func TestPagesAreCurrent(t *testing.T) {
	t.Parallel()
	shown := regexp.MustCompile(`go run \./test/compare((?: [\w-]+)*)`)
	for l, page := range pages {
		raw, err := os.ReadFile(filepath.Join(docs, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range comparisons {
			begin, end := marks(c.name)
			_, rest, _ := strings.Cut(string(raw), begin)
			recorded, _, ends := strings.Cut(rest, end)
			head := "| " + strings.Join((&table{comparison: c}).head(l), " | ") + " |\n"
			if !ends || !strings.Contains(recorded, head) {
				t.Errorf("%s has no table of %s with the head %s", page, c.name, head)
			}
		}
	}
	names := []string{}
	for _, c := range comparisons {
		names = append(names, c.name)
	}
	for _, page := range []string{"comparisons.md", "comparisons.zh-CN.md", "rows.md", "walkthrough.md", "walkthrough.zh-CN.md"} {
		raw, err := os.ReadFile(filepath.Join(docs, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shown.FindAllStringSubmatch(string(raw), -1) {
			o, err := parse(strings.Fields(m[1]), io.Discard)
			if err != nil {
				t.Errorf("%s shows %q: %v", page, m[0], err)
			}
			for _, name := range o.names {
				if !slices.Contains(names, name) {
					t.Errorf("%s shows %q", page, m[0])
				}
			}
		}
	}
}

// TestRecord: record replaces the table between its marks and leaves the rest of the page
// unchanged.
func TestRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin, end := marks("structures")
	for _, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, page), []byte("before\n"+begin+"stale\n"+end+"\nafter\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	result := &table{comparison: structures}
	result.row(text{"a list", "列表"}, 1000, 1.5, 123456.0, nil, 1, 2)
	if err := record(dir, result); err != nil {
		t.Fatal(err)
	}
	for l, want := range map[language]string{english: "| a list | 1,000 | 1.5 | 123,456 | – | 1 | 2 |", chinese: "| 列表 | 1,000 | 1.5 | 123,456 | – | 1 | 2 |"} {
		got, err := os.ReadFile(filepath.Join(dir, pages[l]))
		if err != nil {
			t.Fatal(err)
		}
		if s := string(got); !strings.HasPrefix(s, "before\n"+begin) || !strings.HasSuffix(s, end+"\nafter\n") || !strings.Contains(s, want) || strings.Contains(s, "stale") {
			t.Errorf("%s:\n%s", pages[l], s)
		}
	}
}
