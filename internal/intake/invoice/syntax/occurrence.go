package syntax

import (
	"slices"
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
)

// occurrence is a rule on the number of elements within an outer element: at most most, and if
// least is set, at least one. Scope is the path of the outer element below the root; path is
// relative to it.
type occurrence struct {
	rule        string
	scope, path string
	most        int32
	least       bool
}

// counter is an occurrence rule in a tree; n is its index in builder.counts.
type counter struct {
	occurrence
	n int
}

// limit adds occurrence rules to the tree of a root.
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

// atMostOnce returns rules of at most one occurrence in a scope. The arguments rules alternate
// between a rule and a path.
func atMostOnce(scope string, rules ...string) []occurrence {
	var table []occurrence
	for i := 0; i+1 < len(rules); i += 2 {
		table = append(table, occurrence{rule: rules[i], scope: scope, path: rules[i+1], most: 1})
	}
	return table
}

// beginElement updates the counters at the start of an element. It records a breach if there are
// too many.
func (b *builder) beginElement(n *node) {
	for _, c := range n.scopes {
		b.counts[c.n] = 0
	}
	for _, c := range n.counted {
		if b.counts[c.n]++; b.counts[c.n] == c.most+1 {
			b.recordBreach(c.rule, n)
		}
	}
}

// endElement records a breach for each required child that the ended element lacks.
func (b *builder) endElement(n *node) {
	for _, c := range n.scopes {
		if c.least && b.counts[c.n] == 0 {
			b.recordBreach(c.rule, nil)
		}
	}
}

// recordBreach records that a rule is broken at the current element, or at its child if that is not
// nil.
func (b *builder) recordBreach(rule string, child *node) {
	b.record(invoice.Breach{Rule: rule, Place: b.place(child), Line: b.lineNo})
}

// record stores a breach in the document; beyond invoice.MaxBreaches it is dropped.
func (b *builder) record(breach invoice.Breach) {
	if w := &b.doc.Written; len(w.Breaches) < invoice.MaxBreaches {
		w.Breaches = append(w.Breaches, breach)
	}
}

// place returns the path of the current element, or of its child if that is not nil.
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
