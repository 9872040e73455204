package access

import (
	"slices"

	"example.org/smartdrive/internal/base/drive"
)

// grantStep is a grant on the path from a node up to its root.
type grantStep struct {
	node    drive.NodeID
	level   int // levels above the node; 0: the node itself
	role    Role
	expires drive.Time // zero: never
	atRoot  bool       // node is the root
}

// decision is the result of applying the grants on a path.
type decision struct {
	rights Right
	top    drive.NodeID // the highest folder from which the user sees every level down to the node
	level  int          // of top, in levels above the node
	atRoot bool         // top is the root
	until  drive.Time   // when the first of the grants expires; zero: never
	all    bool         // the user manages the root, so no grant narrows the rights
	member bool         // the user has a role at the root of a space
}

// decide applies the rule of the package comment to the grants above a node, which are ordered by
// level, the node first: the nearest level with an unexpired grant decides the rights, and a
// manager at the root has all. Without unexpired grants the decision is zero. until is when the
// decision may change, 0 never.
func decide(steps []grantStep, now drive.Time) decision {
	v, nearest := decision{}, -1
	var managed decision // by the role manager at the root
	visible := true      // every level from the node up to here is visible
	for at := 0; at < len(steps); {
		level, given, granted := steps[at].level, Right(0), false
		here := steps[at]
		for ; at < len(steps) && steps[at].level == level; at++ {
			s := steps[at]
			if s.expires != 0 && s.expires <= now {
				continue
			}
			if s.expires != 0 && (v.until == 0 || s.expires < v.until) {
				v.until = s.expires
			}
			given, granted = given|s.role.Rights(), true
			v.member = v.member || s.atRoot && s.role.Rights() != 0
			if s.atRoot && s.role == Manager && (!managed.all || expiresAfter(s.expires, managed.until)) {
				managed = decision{rights: All, top: s.node, level: level, atRoot: true, until: s.expires, all: true, member: true}
			}
		}
		if managed.all {
			return managed
		}
		if !granted {
			continue
		}
		if nearest < 0 {
			nearest, v.rights = level, given
			v.top, v.level, v.atRoot = here.node, level, here.atRoot
			visible = given.Has(See)
			continue
		}
		if visible = visible && given.Has(See); visible {
			v.top, v.level, v.atRoot = here.node, level, here.atRoot
		}
	}
	return v
}

// expiresAfter reports whether a expires after b; the zero time never expires.
func expiresAfter(a, b drive.Time) bool { return b != 0 && (a == 0 || a > b) }

// sortByLevel sorts steps by level, as decide requires.
func sortByLevel(steps []grantStep) {
	slices.SortStableFunc(steps, func(a, b grantStep) int { return a.level - b.level })
}
