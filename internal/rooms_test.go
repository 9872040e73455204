package internal_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the map of rooms into docs/README.md")

// floors are the folders of internal, in the order in which a reader meets them, and what each is
// for.
var floors = []struct{ folder, title, says string }{
	{"base", "Vocabulary", "words, sizes, digests, settings; imports nobody"},
	{"engine", "Engines", "bytes, rows, timers, records: each a port with its adapters"},
	{"domain", "The drive's nouns", "each owns its tables"},
	{"usecase", "Use cases", "what people and the program do, one transaction after the other"},
	{"head", "Heads", "HTTP in front of the use cases"},
	{"export", "Wing: exports", "many documents as one zip"},
	{"intake", "Wing: intake", "documents that others send"},
	{"move", "Wing: moving", "attached while an installation moves to other engines"},
	{"app", "Composition", "the only place that names adapters"},
	{"testkit", "For tests", "how deep a test goes, and the services it runs against"},
}

const (
	waysIn     = "../docs/README.md"
	roomsBegin = "<!-- rooms: written by go test ./internal -run Rooms -update -->\n"
	roomsEnd   = "<!-- end of rooms -->"
)

// TestRoomsAreCurrent holds the map in docs/README.md to the table of layers and to the first
// sentences of the packages' comments; -update writes it.
func TestRoomsAreCurrent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(waysIn)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), roomsBegin)
	now, after, ends := strings.Cut(rest, roomsEnd)
	if !found || !ends {
		t.Fatalf("%s has no place for the map of rooms", waysIn)
	}
	drawn := rooms(t)
	if *update {
		if err := os.WriteFile(waysIn, []byte(before+roomsBegin+drawn+roomsEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if now != drawn {
		t.Errorf("the map of rooms is stale: go test ./internal -run Rooms -update")
	}
}

// rooms draws a list for each folder, of its packages with their layers.
func rooms(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	drawn := map[string]bool{}
	for _, floor := range floors {
		fmt.Fprintf(&b, "\n**%s** (`internal/%s`): %s.\n\n", floor.title, floor.folder, floor.says)
		for _, pkg := range slices.SortedFunc(maps.Keys(layers), byLayer) {
			if top, _, _ := strings.Cut(pkg, "/"); top == floor.folder {
				b.WriteString(wrapped(fmt.Sprintf("- `%s` (%d): %s", pkg, layers[pkg], sentence(t, pkg))))
				drawn[pkg] = true
			}
		}
	}
	for pkg := range layers {
		if !drawn[pkg] {
			t.Errorf("package %s is in a folder that floors does not have", pkg)
		}
	}
	return b.String() + "\n"
}

// wrapped breaks an item of a list after at most 120 characters.
func wrapped(item string) string {
	lines := []string{""}
	for word := range strings.FieldsSeq(item) {
		last := &lines[len(lines)-1]
		if len(*last)+len(word) >= 120 {
			lines = append(lines, " ")
			last = &lines[len(lines)-1]
		}
		*last += " " + word
	}
	return strings.TrimPrefix(strings.Join(lines, "\n"), " ") + "\n"
}

func byLayer(a, b string) int { return cmp.Or(cmp.Compare(layers[a], layers[b]), cmp.Compare(a, b)) }

// sentence is the first one of the package's comment, without "Package x"; a long one ends where
// its list or its parenthesis begins.
func sentence(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(pkg, files, err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Doc == nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		_, says, ok := strings.Cut(new(doc.Package).Synopsis(parsed.Doc.Text()), parsed.Name.Name+" ")
		if !ok {
			t.Errorf("the comment of %s does not begin with its name", pkg)
		}
		return shorten(strings.TrimPrefix(strings.TrimSuffix(says, "."), "is "))
	}
	t.Errorf("package %s has no comment", pkg)
	return ""
}

func shorten(says string) string {
	const fits = 60 // characters of an item that one reads at a glance
	if len(says) <= fits {
		return says
	}
	end := len(says)
	for _, stop := range []string{": ", " (", ", so that ", ", which ", "; ", ", in its ", ", each in "} {
		if i := strings.Index(says, stop); i > 0 && i < end {
			end = i
		}
	}
	return says[:end]
}

// Each page is reached from the page that everybody begins with.
func TestEveryPageIsReached(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(waysIn)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := fs.Glob(os.DirFS("../docs"), "*.md")
	if err != nil || len(pages) < 20 {
		t.Fatal(pages, err)
	}
	formats, err := fs.Glob(os.DirFS("../docs"), "formats/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, formats...) {
		if page != "README.md" && !strings.Contains(page, ".zh-CN.") && !strings.Contains(string(text), "]("+page+")") {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
}
