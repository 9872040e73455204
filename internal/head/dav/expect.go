package dav

import (
	"context"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/server"
)

// A request names paths and conditions on their state, but a use case changes nodes. call.expect
// holds the state that the head has read to map one to the other. The use case compares it again in
// its transaction. If the state has changed, it fails as stale and the head decides the request
// anew.

// MaxAttempts bounds how often a request is decided. Each repetition means that a concurrent
// request changed the state.
const MaxAttempts = 10

// retrying wraps a method without a body so that retryStale runs it.
func retrying(run func(*call, context.Context) error) func(*call, context.Context) error {
	return func(c *call, ctx context.Context) error { return retryStale(ctx, c, run) }
}

// retryStale calls run until it succeeds or fails for another reason than state that changed since
// it was read, at most MaxAttempts times. It empties c.expect before each call. It returns the last
// error. run must not have answered the request when it fails.
func retryStale(ctx context.Context, c *call, run func(*call, context.Context) error) (err error) {
	for range MaxAttempts {
		c.expect = tree.Expect{}
		if err = run(c, ctx); !tree.IsStale(err) {
			return err
		}
	}
	return err
}

// expectAt records in c.expect that the entry e, with the state since, is at a location; with e
// nil, that the name is free there. The later change then fails as stale if that no longer holds.
// It records nothing for folders of the layout and for a name in a missing folder. It fails only
// with an error of looking up the folder.
func expectAt(ctx context.Context, c *call, p location, e *Entry, since tree.SeenNode) error {
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
		up, err := c.lookup(ctx, p.parent())
		if err != nil || up == nil || up.Virtual {
			return err
		}
		since = tree.SeenNode{Parent: up.Node, Name: p.last()}
	}
	c.expect.Seen = append(c.expect.Seen, since)
	return nil
}

// asRead returns the part of an entry's state that a condition was compared with, for expectAt.
// With tag it contains the version of the content, with time the revision of the node. A nil entry
// gives the zero state.
func asRead(e *Entry, tag, time bool) (s tree.SeenNode) {
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

// namesTags reports whether the value of If-Match or If-None-Match lists entity tags; empty and "*"
// do not.
func namesTags(list string) bool { return list != "" && strings.TrimSpace(list) != "*" }

// expectConditions stores in c.expect the state that If-Match, If-None-Match and
// If-Unmodified-Since were evaluated against, so that the change fails if the node changed since.
// Without these headers it does nothing. It fails with the error of expectAt.
func expectConditions(ctx context.Context, c *call, e *Entry) error {
	must, mustNot := server.JoinHeader(c.r.Header, "If-Match"), server.JoinHeader(c.r.Header, "If-None-Match")
	since := c.r.Header.Get("If-Unmodified-Since") != ""
	if must == "" && mustNot == "" && !since {
		return nil
	}
	return expectAt(ctx, c, c.at, e, asRead(e, namesTags(must) || namesTags(mustNot), since))
}
