package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ordinary are the nouns of type and table names that need no definition: English words in their
// ordinary sense, and terms of Go, SQL and HTTP.
var ordinary = strings.Fields(`
	above ack admin armer attempt auth backlog balance basic begun body bulk cap cause channel checked checker checksum choice clock
	collected copy cost data day db deferred dialect dir dispatch disposition draft drain durability edit effect entry error expect expired extend extent
	failure fired flow growth header histogram history hook importer inbox info inspector join kind lag limiter listed listener live location machine
	mailer maker marker measured membership metadata mkdir mounted note notifier object offer op option orphan otlp overdue patch people policy progress
	publisher put quarantined querier query reader reason recorder ref response restore result return router runner sampler scope sealer search
	series setting sharer sort staged stamp stat subscription successor sweep tally target text transferred tx type unlinker unsent vault verb
	visibility visit watch writer
`)

var (
	lastWord = regexp.MustCompile(`(?:[A-Z][a-z]+|[A-Z]+s?)$`)
	word     = regexp.MustCompile(`[a-z]+`)
)

// TestGlossaryDefinesNouns: docs/glossary.md contains the last word of each exported type of the
// domain, use case and engine packages, and of each table, unless the word is ordinary.
func TestGlossaryDefinesNouns(t *testing.T) {
	t.Parallel()
	nouns := map[string]string{} // an example by noun
	walk(t, ".go", func(path, text string) {
		if !regexp.MustCompile(`^internal/(domain|usecase|engine)/`).MatchString(path) ||
			strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				if name := spec.(*ast.TypeSpec).Name.Name; ast.IsExported(name) {
					nouns[singular(strings.ToLower(lastWord.FindString(name)))] = file.Name.Name + "." + name
				}
			}
		}
	})
	for _, table := range tables(t) {
		nouns[singular(table[strings.LastIndex(table, "_")+1:])] = "table " + table
	}
	if len(nouns) < 200 {
		t.Fatalf("only %d nouns were found: does this test still read the packages?", len(nouns))
	}
	defined := map[string]bool{}
	for line := range strings.Lines(documents(t)["docs/glossary.md"]) {
		for _, w := range word.FindAllString(strings.ToLower(line), -1) {
			defined[singular(w)] = true
		}
	}
	for noun, example := range nouns {
		if !defined[noun] && !slices.Contains(ordinary, noun) {
			t.Errorf("docs/glossary.md does not define %q (%s); add the term, or list it as an ordinary word", noun, example)
		}
	}
	for _, noun := range ordinary {
		if nouns[noun] == "" {
			t.Errorf("%q is listed as an ordinary word, but names no type or table", noun)
		}
	}
}

// singular returns a noun without the ending of its plural.
func singular(noun string) string {
	switch {
	case noun == "series":
		return noun
	case noun == "alias", noun == "aliases":
		return "alias"
	case strings.HasSuffix(noun, "ies"):
		return strings.TrimSuffix(noun, "ies") + "y"
	case strings.HasSuffix(noun, "ss"), strings.HasSuffix(noun, "us"):
		return noun
	case strings.HasSuffix(noun, "ches"), strings.HasSuffix(noun, "sses"):
		return strings.TrimSuffix(noun, "es")
	}
	return strings.TrimSuffix(noun, "s")
}
