package dav

import (
	"context"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/head/server"
)

// A request names paths, and its conditions are about what is there; a use case changes nodes. What
// the head has read to get from the one to the other stands in call.expect, and the use case
// compares it once more in the transaction that changes something. Where it has changed, the
// request is decided again from the beginning.

// Decisions is how often a request is decided before it is refused: each time, another request was
// faster.
const Decisions = 10

// decided is a method without a body, which is decided as often as it must.
func decided(run func(*call, context.Context) error) func(*call, context.Context) error {
	return func(c *call, ctx context.Context) error { return decide(ctx, c, run) }
}

// decide runs a method until nothing has changed between what it has read and its transaction.
func decide(ctx context.Context, c *call, run func(*call, context.Context) error) (err error) {
	for range Decisions {
		c.expect = tree.Expect{}
		if err = run(c, ctx); !tree.IsStale(err) {
			return err
		}
	}
	return err
}

// expectAt notes what was found at an address: an entry that stays where it is, or a free name. A
// folder of the layout is no node, and nothing is noted of it.
func expectAt(ctx context.Context, c *call, p place, e *Entry, since tree.Seen) error {
	switch {
	case e != nil && e.Virtual:
		return nil
	case e != nil:
		since.Node = e.Node
		if e.ParentID != nil {
			since.Parent, since.Name = *e.ParentID, drive.Name(e.Name)
		}
	case p.isRoot():
		return nil
	default:
		up, err := c.there(ctx, p.parent())
		if err != nil || up == nil || up.Virtual {
			return err
		}
		since = tree.Seen{Parent: up.Node, Name: p.last()}
	}
	c.expect.Seen = append(c.expect.Seen, since)
	return nil
}

// asRead returns the state of an entry that a condition was evaluated against; the transaction
// compares it again. With tag it holds the version of the content, with time the revision of the
// node.
func asRead(e *Entry, tag, time bool) (s tree.Seen) {
	if e == nil {
		return s
	}
	if tag {
		s.Version = e.Version
	}
	if time {
		s.Rev = e.Rev
	}
	return s
}

// namesTags reports whether the value of If-Match or If-None-Match names tags.
func namesTags(list string) bool { return list != "" && strings.TrimSpace(list) != "*" }

// expectConditions notes what the conditions of the request's header were compared with.
func expectConditions(ctx context.Context, c *call, e *Entry) error {
	must, mustNot := server.Joined(c.r.Header, "If-Match"), server.Joined(c.r.Header, "If-None-Match")
	since := c.r.Header.Get("If-Unmodified-Since") != ""
	if must == "" && mustNot == "" && !since {
		return nil
	}
	return expectAt(ctx, c, c.at, e, asRead(e, namesTags(must) || namesTags(mustNot), since))
}
