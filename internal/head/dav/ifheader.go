package dav

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/head/server"
)

// ifList is one list of an If header: all its conditions must hold (RFC 4918 §10.4).
type ifList struct {
	resource   string // a URL; empty: the request's
	conditions []ifCondition
}

// ifCondition is one condition of a list: a state token or an entity tag, possibly negated.
type ifCondition struct {
	not   bool
	token string // a state token; empty: the condition is on tag
	tag   string // an entity tag with its quotes
}

// maxLists bounds the lists in one If header, because each may need queries.
const maxLists = 50

// parseIf parses an If header (RFC 4918 §10.4) into its lists, each with the resource it applies
// to; "" is the request's own. It fails with drive.BadRequest for malformed text, no list or more
// than maxLists.
func parseIf(text string) ([]ifList, error) {
	wrong := drive.BadField("If", drive.Malformed, "expected", "lists of <tokens> and [tags] in parentheses")
	var all []ifList
	resource := ""
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		var inner string
		var ok bool
		switch rest[0] {
		case '<':
			if resource, rest, ok = strings.Cut(rest[1:], ">"); !ok || resource == "" {
				return nil, wrong
			}
			if rest = strings.TrimSpace(rest); !strings.HasPrefix(rest, "(") {
				return nil, wrong
			}
			continue
		case '(':
			if inner, rest, ok = cutList(rest[1:]); !ok {
				return nil, wrong
			}
		default:
			return nil, wrong
		}
		conditions, ok := parseConditions(inner)
		if !ok || len(all) == maxLists {
			return nil, wrong
		}
		all = append(all, ifList{resource, conditions})
	}
	if len(all) == 0 {
		return nil, wrong
	}
	return all, nil
}

// cutList splits s after a list at its closing parenthesis, ignoring parentheses within tokens and
// tags. ok is false if the list does not end.
func cutList(s string) (inner, rest string, ok bool) {
	quoted, token := false, false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' && !token:
			quoted = !quoted
		case c == '<' && !quoted:
			token = true
		case c == '>' && !quoted:
			token = false
		case c == ')' && !quoted && !token:
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

// parseConditions parses the conditions of one list. ok is false if it is malformed or empty.
func parseConditions(s string) (all []ifCondition, ok bool) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		c := ifCondition{}
		if len(s) > 3 && strings.EqualFold(s[:3], "not") {
			c.not = true
			s = strings.TrimSpace(s[3:])
		}
		switch {
		case strings.HasPrefix(s, "<"):
			if c.token, s, ok = strings.Cut(s[1:], ">"); !ok || c.token == "" {
				return nil, false
			}
		case strings.HasPrefix(s, "["):
			if c.tag, s, ok = strings.Cut(s[1:], "]"); !ok || c.tag == "" {
				return nil, false
			}
		default:
			return nil, false
		}
		all = append(all, c)
	}
	return all, len(all) > 0
}

// tokenPrefix is the scheme of lock tokens, followed by the lock's id.
const tokenPrefix = "urn:uuid:"

// tokenOf returns the token of a lock, as in the If and Lock-Token headers without angle brackets.
func tokenOf(l lock.Lock) string { return tokenPrefix + l.ID.String() }

// checkIf returns nil if one of the If header's lists holds or there is no header, and records in
// c.expect what the list depends on. Otherwise it fails with drive.Precondition.
func (c *call) checkIf(ctx context.Context, e *Entry) error {
	if len(c.lists) == 0 {
		return nil
	}
	for _, l := range c.lists {
		on := ifResource{at: c.at, entry: e}
		var err error
		if l.resource == "" {
			on.held, err = c.locksOf(ctx, c.at, e)
		} else {
			on, err = resource(ctx, c, l.resource)
		}
		if err != nil {
			return err
		}
		if used, ok := on.satisfies(l.conditions); ok {
			c.expect.Locks = append(c.expect.Locks, used...)
			return expectList(ctx, c, on, l.conditions)
		}
	}
	return drive.Fail(drive.Precondition)
}

// ifResource is the state of the resource that a list of conditions refers to.
type ifResource struct {
	outside bool // the URL cannot name a node of this view
	at      location
	entry   *Entry // nil: no node there
	// held are the locks that apply to the resource.
	held []lock.Lock
}

// satisfies reports whether all conditions hold for the resource, and returns the locks whose
// tokens the conditions name.
func (on ifResource) satisfies(all []ifCondition) (used []drive.LockID, ok bool) {
	for _, cond := range all {
		var is bool
		if cond.token != "" {
			i := slices.IndexFunc(on.held, func(l lock.Lock) bool { return tokenOf(l) == cond.token })
			if is = i >= 0; is {
				used = append(used, on.held[i].ID)
			}
		} else {
			is = matches(cond.tag, on.entry, true)
		}
		if is == cond.not {
			return nil, false
		}
	}
	return used, true
}

// expectList records in c.expect the state that a list's tags were compared with; a list without
// tags needs no record of state. Tokens of no existing lock need none either, because such a token
// never becomes valid.
func expectList(ctx context.Context, c *call, on ifResource, all []ifCondition) error {
	if on.outside || !slices.ContainsFunc(all, func(cond ifCondition) bool { return cond.tag != "" }) {
		return nil
	}
	return expectAt(ctx, c, on.at, on.entry, asRead(on.entry, true, false))
}

// resource looks up the resource that a list names, with its locks. For a URL outside of the view
// or with an invalid name it returns outside: true, without an error; then only conditions with Not
// hold. It fails with drive.BadRequest for text that is not a URL.
func resource(ctx context.Context, c *call, text string) (on ifResource, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return on, drive.BadField("If", drive.Malformed, "expected", "a URL")
	}
	on.at, err = c.parse(u)
	if drive.IsKind(err, drive.NotFound, drive.BadName) { // on another server, or no valid name: no condition on it holds
		return ifResource{outside: true}, nil
	}
	if err != nil {
		return on, err
	}
	if on.entry, err = c.lookup(ctx, on.at); err == nil {
		on.held, err = c.locksOf(ctx, on.at, on.entry)
	}
	return on, err
}

// locksOf returns the locks that apply at a location. For a missing entry, these are the deep locks
// of its folder. Layout folders have none. It fails with the error of a query.
func (c *call) locksOf(ctx context.Context, p location, e *Entry) ([]lock.Lock, error) {
	if e != nil {
		if e.Virtual {
			return nil, nil
		}
		return c.marks.LocksAt(ctx, c.who, e.Node, false)
	}
	if p.isRoot() {
		return nil, nil
	}
	up, err := c.lookup(ctx, p.parent())
	if err != nil || up == nil || up.Virtual {
		return nil, err
	}
	all, err := c.marks.LocksAt(ctx, c.who, up.Node, false)
	return slices.DeleteFunc(all, func(l lock.Lock) bool { return !l.Deep }), err
}

// submits reports whether the lock belongs to the caller and the request submits its token in the
// If header.
func submits(c *call, l lock.Lock) bool {
	return l.User == c.who.User && slices.Contains(c.tokens, tokenOf(l))
}

// checkUnlocked fails with drive.Locked if an entry is locked and the request submits no token for
// it. Deep locks above the entry count. With below, so does a lock on anything below it. Of several
// locks on a node one token suffices (RFC 4918 §7). Folders of the layout are never locked.
func (c *call) checkUnlocked(ctx context.Context, e Entry, below bool) error {
	if e.Virtual {
		return nil
	}
	all, err := c.marks.LocksAt(ctx, c.who, e.Node, below)
	if err != nil {
		return err
	}
	brought := map[drive.NodeID]bool{}
	for _, l := range all {
		brought[l.Node] = brought[l.Node] || submits(c, l)
	}
	for _, l := range all {
		if !brought[l.Node] {
			return condition{l.Refusal(), 0, "lock-token-submitted", "<D:href>" + e.href + "</D:href>"}
		}
	}
	return nil
}

// submitted returns the locks whose tokens the request submits, in the form that the use cases
// check. Tokens that this server cannot have issued are left out.
func submitted(c *call) drive.Tokens {
	var locks []drive.LockID
	for _, token := range c.tokens {
		text, ours := strings.CutPrefix(token, tokenPrefix)
		if id, err := drive.ParseID[drive.LockID](text); ours && err == nil {
			locks = append(locks, id)
		}
	}
	return drive.SubmitTokens(locks)
}

// readTokens parses the If header into c.lists and appends its lock tokens to c.tokens. Without the
// header both stay empty. It fails with drive.BadRequest.
func readTokens(c *call) (err error) {
	if text := server.JoinHeader(c.r.Header, "If"); text != "" {
		if c.lists, err = parseIf(text); err != nil {
			return err
		}
	}
	for _, l := range c.lists {
		for _, cond := range l.conditions {
			if cond.token != "" {
				c.tokens = append(c.tokens, cond.token)
			}
		}
	}
	return nil
}
