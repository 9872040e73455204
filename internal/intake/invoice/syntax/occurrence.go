package syntax

import (
	"slices"
	"strings"

	"smartdrive/internal/intake/invoice"
)

// occurrence is a rule on how often an element stands in another one: at most most times, and with
// least at least once. Scope is the outer element, by its path below the root.
type occurrence struct {
	rule        string
	scope, path string
	most        int32
	least       bool
}

// counter is an occurrence in a tree; n is its place in builder.counts.
type counter struct {
	occurrence
	n int
}

// limit adds occurrences to the tree of a root.
func (root *node) limit(prefixes []string, tables ...[]occurrence) {
	for _, table := range tables {
		for _, o := range table {
			scope := root.descend(prefixes, o.scope)
			at := scope.descend(prefixes, o.path)
			c := counter{occurrence: o, n: root.counters}
			root.counters++
			scope.scopes, at.counted = append(scope.scopes, c), append(at.counted, c)
		}
	}
}

// atMostOnce are occurrences of at most one, as rule and path, in one scope.
func atMostOnce(scope string, rules ...string) []occurrence {
	var table []occurrence
	for i := 0; i+1 < len(rules); i += 2 {
		table = append(table, occurrence{rule: rules[i], scope: scope, path: rules[i+1], most: 1})
	}
	return table
}

// enter counts an element that has started.
func (b *builder) enter(n *node) {
	for _, c := range n.scopes {
		b.counts[c.n] = 0
	}
	for _, c := range n.counted {
		if b.counts[c.n]++; b.counts[c.n] == c.most+1 {
			b.breach(c.rule, n)
		}
	}
}

// leave notes what an element that has ended does not have.
func (b *builder) leave(n *node) {
	for _, c := range n.scopes {
		if c.least && b.counts[c.n] == 0 {
			b.breach(c.rule, nil)
		}
	}
}

// breach notes that a rule is broken here, in a child of the element that is open if there is one.
func (b *builder) breach(rule string, child *node) {
	b.record(invoice.Breach{Rule: rule, Place: b.place(child), Line: b.lineNo})
}

func (b *builder) record(breach invoice.Breach) {
	if w := &b.doc.Written; len(w.Breaches) < invoice.MaxBreaches {
		w.Breaches = append(w.Breaches, breach)
	}
}

// place is where the reader is, as a path.
func (b *builder) place(child *node) string {
	var path strings.Builder
	path.WriteString("/" + b.root)
	for _, n := range append(slices.Clip(b.path), child) {
		if n != nil && n.path != "" {
			path.WriteString("/" + n.path)
		}
	}
	return path.String()
}
