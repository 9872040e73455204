package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

// A document names commands, flags, settings, routes and parts of the program in code spans. What
// is named exists.

var (
	fence = regexp.MustCompile("(?s)```.*?```")
	span  = regexp.MustCompile("`([^`\n]+)`")
)

// spans returns the code spans of a document's prose.
func spans(text string) (all []string) {
	for _, m := range span.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, m[1])
	}
	return all
}

// pages returns the documents that describe the present program. The changelog and the decisions
// describe earlier states and are left out.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := documents(t)
	maps.DeleteFunc(all, func(path, _ string) bool {
		return strings.HasPrefix(strings.ToLower(path), "changelog") || strings.HasPrefix(path, "docs/decisions/0")
	})
	if len(all) < 30 {
		t.Fatalf("only %d pages were found: does this test still read the documents?", len(all))
	}
	return all
}

func TestNamedCommandsExist(t *testing.T) {
	t.Parallel()
	binary := process.Binary(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	helps := map[string]string{}
	for path, text := range pages(t) {
		for _, named := range spans(text) {
			switch words := strings.Fields(named); {
			case words[0] == "make" && len(words) > 1 && !strings.Contains(string(makefile), "\n"+words[1]+":"):
				t.Errorf("%s: there is no %s", path, named)
			case words[0] == "smartdrive" && len(words) > 1 && !hidden[words[1]]:
				checkCommand(t, binary, path, words[1:], helps)
			}
		}
	}
}

// hidden are commands that the help does not list.
var hidden = map[string]bool{"decode-image": true}

// foreign are flags of other programs.
var foreign = []string{"--single-transaction", "--keep-alive", "--backup-dir", "--allow-missing"} // of mysqldump, versitygw, rclone and test/compare

var flagSpan = regexp.MustCompile(`^(--[a-z][a-z0-9-]+)(=.*| .*)?$`)

func TestNamedFlagsExist(t *testing.T) {
	t.Parallel()
	flags := allFlags(t)
	for path, text := range pages(t) {
		for _, named := range spans(text) {
			m := flagSpan.FindStringSubmatch(named)
			if m != nil && flags[m[1]] == nil && !slices.Contains(foreign, m[1]) {
				t.Errorf("%s names the flag %s, which no command has", path, m[1])
			}
		}
	}
}

var (
	helpFlag    = regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z][a-z0-9-]+)\b(.*)$`)
	helpDefault = regexp.MustCompile(`\(default "?([^")]*)"?\)$`)
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +[A-Z]`)
)

// allFlags returns the defaults of each flag, over all commands that have it.
func allFlags(t *testing.T) map[string][]string {
	t.Helper()
	binary, helps, flags := process.Binary(t), map[string]string{}, map[string][]string{}
	var visit func(command []string)
	visit = func(command []string) {
		help := helpOf(t, binary, command, helps)
		for _, m := range helpFlag.FindAllStringSubmatch(help, -1) {
			value := ""
			if d := helpDefault.FindStringSubmatch(m[2]); d != nil {
				value = d[1]
			}
			flags[m[1]] = append(flags[m[1]], value)
		}
		head, _, _ := strings.Cut(help, "\nFlags:")
		if _, list, ok := strings.Cut(head, "\nUsage:"); ok && strings.Contains(list, "[command]") {
			for _, m := range helpCommand.FindAllStringSubmatch(list, -1) {
				if m[1] != "smartdrive" && m[1] != "help" && m[1] != "completion" {
					visit(append(slices.Clone(command), m[1]))
				}
			}
		}
	}
	visit(nil)
	if len(helps) < 40 || len(flags) < 60 {
		t.Fatalf("%d commands with %d flags were found", len(helps), len(flags))
	}
	return flags
}

// What a page gives as the usual value of a flag is its default: "`--flag` (30 s)", "30 s
// (`--flag`)" and "(`--flag`, 30 s".
func TestDefaultsAreTheseValues(t *testing.T) {
	t.Parallel()
	const amount = `(\d+)\s*(ms|s|seconds?|min|minutes?|hours?|days?|MiB|GiB)\b`
	forms := []*regexp.Regexp{
		regexp.MustCompile("`(--[a-z-]+)`" + `\s*\(` + amount),
		regexp.MustCompile(`\(` + "`(--[a-z-]+)`" + `,\s*` + amount),
		regexp.MustCompile(amount + `\s*\(` + "`(--[a-z-]+)`" + `\)`),
		regexp.MustCompile("`(--[a-z-]+)`" + `（` + `(\d+)\s*(ms|s|秒|分钟|小时|天|MiB|GiB)`),
		regexp.MustCompile("`(--[a-z-]+)`" + `（默认\s*` + `(\d+)\s*(ms|s|秒|分钟|小时|天|MiB|GiB)`),
	}
	flags, compared := allFlags(t), 0
	for path, text := range pages(t) {
		for _, form := range forms {
			for _, m := range form.FindAllStringSubmatch(text, -1) {
				flag, n, unit := m[1], m[2], m[3]
				if !strings.HasPrefix(flag, "--") {
					flag, n, unit = m[3], m[1], m[2]
				}
				compared++
				if !slices.ContainsFunc(flags[flag], func(d string) bool { return same(d, n, unit) }) {
					t.Errorf("%s says %s %s of %s, whose default is %q", path, n, unit, flag, flags[flag])
				}
			}
		}
	}
	if compared < 15 {
		t.Errorf("only %d values were compared", compared)
	}
}

// same reports whether a default such as 168h or 32MiB is so many of a unit as prose writes it.
func same(value, n, unit string) bool {
	suffix := map[string]string{
		"ms": "ms", "s": "s", "second": "s", "秒": "s", "min": "m", "minute": "m", "分钟": "m", "hour": "h", "小时": "h",
		"day": "d", "天": "d", "MiB": "MiB", "GiB": "GiB",
	}[strings.TrimSuffix(unit, "s")]
	if unit == "s" || unit == "ms" {
		suffix = unit
	}
	if strings.HasSuffix(suffix, "iB") {
		a, errA := drive.ParseByteSize(value)
		b, errB := drive.ParseByteSize(n + suffix)
		return errA == nil && errB == nil && a == b
	}
	a, errA := time.ParseDuration(value)
	if suffix == "d" {
		b, errB := time.ParseDuration(n + "h")
		return errA == nil && errB == nil && a == 24*b
	}
	b, errB := time.ParseDuration(n + suffix)
	return errA == nil && errB == nil && a == b
}

var variable = regexp.MustCompile(`SMARTDRIVE_[A-Z0-9_]*[A-Z0-9]`)

// A variable of the environment that a page names is read by the program, a test or a script.
func TestNamedVariablesExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"SMARTDRIVE_TEST_" + strings.ToUpper(string(servicetest.RedisCluster)): true} // the only one that is composed
	for _, m := range variable.FindAllString(documents(t)["docs/configuration.md"], -1) {
		known[m], known[m+"_FILE"] = true, true
	}
	for _, suffix := range []string{".go", ".sh", ".ts", ".mjs", "Makefile"} {
		walk(t, suffix, func(_, text string) {
			for _, m := range variable.FindAllString(text, -1) {
				known[m] = true
			}
		})
	}
	for path, text := range pages(t) {
		for _, name := range variable.FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("%s names %s, which nothing reads", path, name)
			}
		}
	}
}

var (
	routeSpan    = regexp.MustCompile(`^(GET|HEAD|PUT|POST|PATCH|DELETE) (/\S*)`)
	routeHeading = regexp.MustCompile(`(?m)^### (GET|HEAD|PUT|POST|PATCH|DELETE) (/\S*)`)
	wild         = regexp.MustCompile(`\{[^}]*\}|\b[A-Z]{2,}\b`)
)

// Every route that a page names is in docs/api.md or is one of the other heads' routes.
func TestNamedRoutesExist(t *testing.T) {
	t.Parallel()
	all := documents(t)
	known := map[string]bool{"GET /readyz": true, "GET /healthz": true, "GET /metrics": true}
	for _, m := range routeHeading.FindAllStringSubmatch(all["docs/api.md"], -1) {
		known[m[1]+" "+wild.ReplaceAllString(m[2], "*")] = true
	}
	for path, text := range pages(t) {
		for _, named := range spans(text) {
			m := routeSpan.FindStringSubmatch(named)
			if m == nil || strings.HasPrefix(m[2], "/tus/") || strings.HasPrefix(m[2], "/resumable/") {
				continue
			}
			to, _, _ := strings.Cut(strings.TrimPrefix(m[2], "/api/v1"), "?")
			if key := m[1] + " " + wild.ReplaceAllString(to, "*"); !known[key] && !strings.Contains(to, "...") {
				t.Errorf("%s names the route %s, which is not there", path, named)
			}
		}
	}
}

var (
	// symbol is package.Name, package.Name.Name or package.(*Name).Name.
	symbol   = regexp.MustCompile(`^([a-z][a-z0-9]*)\.(?:\(\*)?([A-Za-z]\w*)\)?(?:\.([A-Za-z]\w*))?(?:\(\))?$`)
	declares = regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)([A-Za-z]\w*)\b`)
	inside   = regexp.MustCompile(`^[a-z]+(/[a-z0-9_]+)+(\.go)?$`)
)

// What a page names of a package of ours is declared there.
func TestNamedSymbolsExist(t *testing.T) {
	t.Parallel()
	declared := map[string]map[string]bool{}
	walk(t, ".go", func(path, text string) {
		pkg := filepath.Base(filepath.Dir(path))
		if declared[pkg] == nil {
			declared[pkg] = map[string]bool{}
		}
		for _, m := range declares.FindAllStringSubmatch(text, -1) {
			declared[pkg][m[1]] = true
		}
	})
	looked := 0
	for path, text := range pages(t) {
		for _, named := range spans(text) {
			m := symbol.FindStringSubmatch(named)
			if m == nil || declared[m[1]] == nil || m[1] == "smartdrive" || slices.Contains([]string{"go", "md", "pdf", "json", "ms", "example"}, m[2]) {
				continue
			}
			if slices.Contains(eventTypes(), stream.Type(named)) || activity.Verb(named).Known() {
				continue
			}
			looked++
			for _, name := range m[2:] {
				if name != "" && !declared[m[1]][name] {
					t.Errorf("%s names %s; package %s has no %s", path, named, m[1], name)
				}
			}
		}
	}
	if looked < 20 {
		t.Errorf("only %d names were looked up", looked)
	}
}

func eventTypes() (all []stream.Type) {
	for _, topic := range stream.Topics() {
		all = append(all, topic.Types()...)
	}
	return all
}

// A page names packages and files by their path from the root or from internal, so that a reader
// finds them.
func TestPackagesAreNamedInFull(t *testing.T) {
	t.Parallel()
	ours := map[string]bool{}
	walk(t, ".go", func(path, _ string) {
		if inner, ok := strings.CutPrefix(filepath.Dir(path), "internal/"); ok {
			for folder := range strings.SplitSeq(inner, "/") {
				ours[folder] = true
			}
		}
	})
	for path, text := range pages(t) {
		for _, named := range spans(text) {
			first, _, _ := strings.Cut(named, "/")
			if !inside.MatchString(named) || !ours[first] {
				continue
			}
			_, fromRoot := os.Stat(filepath.Join(root, named))
			_, fromInternal := os.Stat(filepath.Join(root, "internal", named))
			if fromRoot != nil && fromInternal != nil {
				t.Errorf("%s names %s, which is not there", path, named)
			}
		}
	}
}
