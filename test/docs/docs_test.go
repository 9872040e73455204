// Package docs holds the documents to the code: links lead somewhere, commands and flags exist, the
// tests that are named as proof are there. It has tests only.
package docs

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

const root = "../.."

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	console = regexp.MustCompile("(?s)```console\n(.*?)```")
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for path, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			target, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %s: %v", path, m[1], err)
				continue
			}
			if target.Scheme != "" || strings.HasPrefix(m[1], "/") {
				continue // somewhere else on the net; addresses of the API
			}
			to := path
			if target.Path != "" {
				to = filepath.Join(filepath.Dir(path), filepath.FromSlash(target.Path))
			}
			if err := leads(to, target.Fragment); err != nil {
				t.Errorf("%s: the link to %s: %v", path, m[1], err)
			}
		}
	}
}

func leads(to, fragment string) error {
	if fragment == "" {
		_, err := os.Stat(filepath.Join(root, to))
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, to))
	if err != nil {
		return err
	}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		if anchor(m[1]) == fragment {
			return nil
		}
	}
	return errors.New("there is no such heading")
}

// anchor is the fragment by which a heading is reached, as GitHub makes it.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

var (
	testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)
)

// A promise is as good as the test that shows it.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	walk(t, "_test.go", func(_, text string) {
		for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
			there[m[1]] = true
		}
	})
	for path, text := range documents(t) {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !there[m[1]] {
				t.Errorf("%s: there is no test %s", path, m[1])
			}
		}
	}
}

// What stands behind "$ " in a console block can be typed: the command is there, and has these
// flags. Targets of make are there.
func TestCommandsExist(t *testing.T) {
	t.Parallel()
	binary := process.Binary(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	helps := map[string]string{}
	for path, text := range documents(t) {
		for _, words := range commands(text) {
			switch {
			case words[0] == "make" && len(words) > 1 && !strings.Contains(string(makefile), "\n"+words[1]+":"):
				t.Errorf("%s: there is no make %s", path, words[1])
			case words[0] == "smartdrive":
				checkCommand(t, binary, path, words[1:], helps)
			}
		}
	}
	if len(helps) < 10 {
		t.Errorf("only %d commands were found: does this test still read the documents?", len(helps))
	}
}

// commands returns the simple commands of all console blocks, in words.
func commands(text string) [][]string {
	var all [][]string
	for _, block := range console.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			typed, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			for _, part := range regexp.MustCompile(`[|;&]+`).Split(typed, -1) {
				words := strings.Fields(part)
				if len(words) > 3 && words[0] == "sudo" {
					words = words[3:] // sudo -u USER
				}
				if len(words) > 0 {
					all = append(all, words)
				}
			}
		}
	}
	return all
}

func checkCommand(t *testing.T, binary, path string, words []string, helps map[string]string) {
	t.Helper()
	var command []string
	help := helpOf(t, binary, nil, helps)
	for _, w := range words {
		if !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(w) + ` +[A-Z]`).MatchString(help) {
			break // the first argument
		}
		command = append(command, w)
		help = helpOf(t, binary, command, helps)
	}
	if len(command) == 0 && len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		t.Errorf("%s: there is no command smartdrive %s", path, words[0])
	}
	if strings.Contains(help, "\nAvailable Commands:") && len(words) > len(command) && !strings.HasPrefix(words[len(command)], "-") {
		t.Errorf("%s: smartdrive %s has no command %s", path, strings.Join(command, " "), words[len(command)])
	}
	for _, w := range words {
		flag, _, _ := strings.Cut(w, "=")
		if strings.HasPrefix(flag, "-") && flag != "-" && !regexp.MustCompile(`(?m)(^|[\s,])`+regexp.QuoteMeta(flag)+`([\s,]|$)`).MatchString(help) {
			t.Errorf("%s: smartdrive %s has no flag %s", path, strings.Join(command, " "), flag)
		}
	}
}

func helpOf(t *testing.T, binary string, command []string, helps map[string]string) string {
	t.Helper()
	key := strings.Join(command, " ")
	if helps[key] == "" {
		out, err := exec.Command(binary, append(slices.Clone(command), "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("smartdrive %s --help: %v\n%s", key, err, out)
		}
		helps[key] = string(out)
	}
	return helps[key]
}

// Both READMEs show the same commands and the same output.
func TestTheReadmesAgree(t *testing.T) {
	t.Parallel()
	all := documents(t)
	english, chinese := console.FindAllString(all["README.md"], -1), console.FindAllString(all["README.zh-CN.md"], -1)
	if len(english) == 0 || !slices.Equal(english, chinese) {
		t.Errorf("the console blocks differ: %d in English, %d in Chinese", len(english), len(chinese))
	}
	if e, c := strings.Count(all["README.md"], "\n## "), strings.Count(all["README.zh-CN.md"], "\n## "); e != c {
		t.Errorf("%d sections in English, %d in Chinese", e, c)
	}
}

// A page in Chinese has the sections and the rows of tables of its page in English, and the two
// lead to each other.
func TestPagesInTwoLanguagesAgree(t *testing.T) {
	t.Parallel()
	all := documents(t)
	pairs := 0
	for path, chinese := range all {
		stem, ok := strings.CutSuffix(path, ".zh-CN.md")
		if !ok || !strings.HasPrefix(path, "docs/") {
			continue
		}
		pairs++
		english, name := all[stem+".md"], filepath.Base(stem)
		if !strings.Contains(english, "]("+name+".zh-CN.md)") || !strings.Contains(chinese, "]("+name+".md)") {
			t.Errorf("%s and %s.md do not lead to each other", path, stem)
		}
		for _, mark := range []string{"\n## ", "\n### ", "\n|"} {
			if e, c := strings.Count(english, mark), strings.Count(chinese, mark); e != c {
				t.Errorf("%s: %q is there %d times, and %d times in English", path, mark, c, e)
			}
		}
	}
	for _, page := range []string{"cluster", "operations", "runbook"} { // for operators
		if all["docs/"+page+".zh-CN.md"] == "" {
			t.Errorf("docs/%s.md is not there in Chinese", page)
		}
	}
	if pairs < 10 {
		t.Errorf("only %d pairs were found", pairs)
	}
	rows := func(page string) []string { return refusal.FindAllString(all[page], -1) }
	if !slices.Equal(rows(clusterPage), rows("docs/cluster.zh-CN.md")) {
		t.Error("the refusals of the two cluster pages differ")
	}
	if e, c := alarms.FindAllString(all["docs/runbook.md"], -1), alarms.FindAllString(all["docs/runbook.zh-CN.md"], -1); !slices.Equal(e, c) {
		t.Error("the alarms of the two runbooks differ")
	}
}

var alarms = regexp.MustCompile(`(?m)^### .*$`)

// documents returns all Markdown files by their path below the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	walk(t, ".md", func(path, text string) { all[path] = text })
	if len(all) == 0 {
		t.Fatal("there are no documents")
	}
	return all
}

func walk(t *testing.T, suffix string, visit func(path, text string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."), d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, suffix):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err == nil {
			visit(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
