package docs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/engine/stream"
)

var update = flag.Bool("update", false, "write promises.txt")

// forNow matches words that say that something is missing at present. When it is built, the
// sentence becomes false, and no other test notices.
var forNow = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
	`not yet`, `yet\b`, `planned`, `for now`, `so far`, `today`, `one day`, `some day`, `in future`, `soon`,
	`to be (?:measured|built|done|decided)`, `(?:(?:was|were) not|(?:has|have) not been) (?:measured|tried|run|tested|looked into)`,
	`what is left to`, `later`,
}, "|") + `)\b|计划|尚未|还没有|将来|暂未`)

// innocent matches uses of "later" about events while the program runs.
var innocent = regexp.MustCompile(`(?i)(?:or|and|than|sooner|slower|earlier|is|late[rst]*|[0-9]+|minutes?|min|hours?|hour|days?|s|month|moment) later|later (?:than|one|runs?|of|resume|bundle|time|zip)\b|later (?:this|bundle)|no longer|soon as`)

const promisesFile = "promises.txt"

// promises.txt lists the sentences of README and docs that say "later", "not yet" or "planned". It
// is reviewed before each release, and sentences about finished work are corrected. "go test
// ./test/docs -run Promises -update" adds new sentences, which a reviewer then sees.
func TestPromisesAreListed(t *testing.T) {
	t.Parallel()
	var found []string
	for path, text := range pages(t) {
		if !strings.HasPrefix(path, "README") && !strings.HasPrefix(path, "docs/") || generated(text) {
			continue
		}
		for line := range strings.Lines(fence.ReplaceAllString(text, "")) {
			plain := span.ReplaceAllString(innocent.ReplaceAllString(line, ""), "")
			if m := forNow.FindStringIndex(plain); m != nil {
				found = append(found, path+": "+around(plain, m[0], m[1]))
			}
		}
	}
	slices.Sort(found)
	now := strings.Join(slices.Compact(found), "\n") + "\n"
	if *update {
		if err := os.WriteFile(promisesFile, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := os.ReadFile(promisesFile)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(listed), "\n"), strings.Split(now, "\n")
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("%s does not list: %s", promisesFile, line)
		}
	}
	for _, line := range was {
		if !slices.Contains(is, line) {
			t.Errorf("%s lists what no page says: %s", promisesFile, line)
		}
	}
}

func generated(text string) bool { return strings.Contains(text, "This page is generated") }

// around returns some words on both sides of a place in a line; Chinese, which has no spaces
// between them, is cut after some characters.
func around(line string, from, to int) string {
	const words = 4
	before, after := strings.Fields(line[:from]), strings.Fields(line[to:])
	before, after = before[max(0, len(before)-words):], after[:min(words, len(after))]
	left, right := []rune(strings.Join(before, " ")), []rune(strings.Join(after, " "))
	const characters = 40
	left, right = left[max(0, len(left)-characters):], right[:min(characters, len(right))]
	return strings.TrimSpace(string(left) + " «" + line[from:to] + "» " + string(right))
}

// Each page of formats/database.md's and kafka.md's tables has one line for each thing.
func TestFormatsListEachThingOnce(t *testing.T) {
	t.Parallel()
	all := documents(t)
	_, section, _ := strings.Cut(all["docs/formats/database.md"], "\n## Tables\n")
	section, _, _ = strings.Cut(section, "\n## ")
	once(t, "docs/formats/database.md", "table", firstCells(section), tables(t))

	var topics []string
	for _, topic := range stream.Topics() {
		topics = append(topics, string(topic))
	}
	section, _, _ = strings.Cut(all["docs/formats/kafka.md"], "\n## ")
	named := slices.DeleteFunc(firstCells(section), func(name string) bool {
		return strings.Contains(name, "<") || strings.Contains(name, ".delay.") || strings.HasSuffix(name, ".dlq")
	})
	once(t, "docs/formats/kafka.md", "topic", named, topics)
}

func once(t *testing.T, page, kind string, named, there []string) {
	t.Helper()
	counts := map[string]int{}
	for _, name := range named {
		counts[name]++
	}
	for _, name := range there {
		if counts[name] != 1 {
			t.Errorf("%s lists the %s %s %d times", page, kind, name, counts[name])
		}
		delete(counts, name)
	}
	for name := range counts {
		t.Errorf("%s lists %s, which is no %s", page, name, kind)
	}
}

// firstCells returns the code spans in the first cells of a table; one that begins with a dot goes
// on with the one before it: `a.b`, `.c` are a.b and a.c.
func firstCells(section string) (all []string) {
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range span.FindAllStringSubmatch(cells[1], -1) {
			name := m[1]
			if strings.HasPrefix(name, ".") && len(all) > 0 {
				above := all[len(all)-1]
				name = above[:strings.LastIndex(above, ".")] + name
			}
			all = append(all, name)
		}
	}
	return all
}

// A type of event that nothing emits is not promised: kafka.md lists it as declared only.
func TestEventsThatAreEmitted(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(root, "internal/engine/stream/topic.go"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	walk(t, ".go", func(path, text string) {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "streamtest/") {
			return
		}
		for _, m := range regexp.MustCompile(`\bstream\.([A-Z]\w+)`).FindAllStringSubmatch(text, -1) {
			used[m[1]] = true
		}
	})
	page := documents(t)["docs/formats/kafka.md"]
	types := regexp.MustCompile(`(?m)^\t(\w+) +Type = "([a-z.]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(types) < 10 {
		t.Fatal("the types were not found")
	}
	for _, m := range types {
		emitted := strings.Contains(page, "| `"+m[2]+"` |")
		if used[m[1]] != emitted {
			t.Errorf("%s: emitted is %v, and the page's table says %v", m[2], used[m[1]], emitted)
		}
	}
}

// The password rules in the pages and in the API document are those that the program checks.
func TestPasswordsAreThisLong(t *testing.T) {
	t.Parallel()
	all := documents(t)
	if least := fmt.Sprintf("%d to 1,024 bytes", account.MinPasswordBytes); strings.Count(all["docs/api.md"], " to 1,024 bytes") != strings.Count(all["docs/api.md"], least) {
		t.Errorf("docs/api.md says another length than %s", least)
	}
	if least := fmt.Sprintf("A new password has %d bytes or more", account.MinPasswordBytes); !strings.Contains(all["docs/operations.md"], least) {
		t.Errorf("docs/operations.md does not say: %s", least)
	}
}

// The checks of fsck that invariants.md names are in the table of its package comment.
func TestNamedChecksExist(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile(filepath.Join(root, "internal/usecase/fsck/doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("fsck\\s+checks? ((?:`[a-z]+`(?:, | and )?)+)").FindAllStringSubmatch(documents(t)["docs/invariants.md"], -1)
	if len(named) < 10 {
		t.Fatalf("only %d checks are named", len(named))
	}
	for _, m := range named {
		for _, check := range span.FindAllStringSubmatch(m[1], -1) {
			if !strings.Contains(string(table), "\n//\t"+check[1]+" ") {
				t.Errorf("docs/invariants.md names the check %s, which the comment of fsck does not list", check[1])
			}
		}
	}
}

// The list of decisions contains each decision with its number and title.
func TestDecisionsAreListed(t *testing.T) {
	t.Parallel()
	all := documents(t)
	list, at := all["docs/decisions/README.md"], 0
	files, err := filepath.Glob(filepath.Join(root, "docs/decisions/0*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		number := strings.TrimLeft(name[:4], "0")
		i := strings.Index(list, fmt.Sprintf("| [%s](%s) | ", number, name))
		if i < 0 || i < at {
			t.Errorf("decision %s is not listed, or not in its place", number)
			continue
		}
		at = i
		if !strings.HasPrefix(all["docs/decisions/"+name], "# "+number+". ") {
			t.Errorf("%s does not begin with its number", name)
		}
	}
}
