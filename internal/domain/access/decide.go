package access

import (
	"slices"

	"smartdrive/internal/base/drive"
)

// step is a grant on the way from a node up to its root.
type step struct {
	node    drive.NodeID
	level   int // 0: at the node itself
	role    Role
	expires drive.Time // zero: never
	root    bool       // it is on the root
}

// verdict is what the grants on the way come to.
type verdict struct {
	rights Right
	top    drive.NodeID // the highest folder from which the user sees the node without a gap
	level  int          // of top, above the node
	atRoot bool         // top is the root
	until  drive.Time   // when one of the grants ends; zero: never
	all    bool         // of a manager of the root, whom nothing narrows
	member bool         // has a role at the root of a space
}

// decide applies the rule of the package comment. The steps are in the order of their levels.
func decide(steps []step, now drive.Time) verdict {
	v, first := verdict{}, -1
	var managed verdict // by the manager's role at the root
	open := true        // from the node up to here everything is seen
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
			v.member = v.member || s.root && s.role.Rights() != 0
			if s.root && s.role == Manager && (!managed.all || lastsLonger(s.expires, managed.until)) {
				managed = verdict{rights: All, top: s.node, level: level, atRoot: true, until: s.expires, all: true, member: true}
			}
		}
		if managed.all {
			return managed
		}
		if !granted {
			continue
		}
		if first < 0 {
			first, v.rights = level, given
			v.top, v.level, v.atRoot = here.node, level, here.root
			open = given.Has(See)
			continue
		}
		if open = open && given.Has(See); open {
			v.top, v.level, v.atRoot = here.node, level, here.root
		}
	}
	return v
}

// lastsLonger compares ends, of which zero is never.
func lastsLonger(a, b drive.Time) bool { return b != 0 && (a == 0 || a > b) }

// sort brings steps into the order that decide wants.
func sortSteps(steps []step) {
	slices.SortStableFunc(steps, func(a, b step) int { return a.level - b.level })
}
