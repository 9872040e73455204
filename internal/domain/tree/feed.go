package tree

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// The feed lists every existing node and every tombstone in the order of seq. A replica that
// applies the feed from the beginning has the same nodes. A node may appear before its parent. A
// descendant of a trashed folder is not live, although it has no trash time, and does not appear
// again when the folder is restored.

// Position is a reader's position in the feed. Its text form is "<seq>", or "<seq>.<base>" during
// the first pass.
type Position struct {
	Seq int64
	// Base is the tree's seq when the reader got its first page; zero once the reader has reached
	// it. Up to Base the reader needs no tombstones: it was never shown a node deleted before.
	Base int64
}

// ParsePosition parses the text form; empty is the beginning. It fails with BadRequest if s is
// malformed.
func ParsePosition(s string) (p Position, err error) {
	if s == "" {
		return Position{}, nil
	}
	seq, base, both := strings.Cut(s, ".")
	p.Seq, err = parseSeq(seq)
	if err == nil && both {
		p.Base, err = parseSeq(base)
	}
	if err != nil || p.String() != s {
		return Position{}, drive.BadField("after", drive.Malformed, "expected", "what the last page gave as next")
	}
	return p, nil
}

// parseSeq parses a sequence number. It fails with an error of package strconv if s is not a
// decimal number, is negative or exceeds an int64.
func parseSeq(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n < 0 {
		err = strconv.ErrRange
	}
	return n, err
}

// String returns the text form of p.
func (p Position) String() string {
	if p.Base == 0 {
		return strconv.FormatInt(p.Seq, 10)
	}
	return strconv.FormatInt(p.Seq, 10) + "." + strconv.FormatInt(p.Base, 10)
}

// Change is one entry of the feed: the current state of a node, or the id of a deleted one.
type Change struct {
	Seq     int64
	Node    Node
	Deleted drive.NodeID // zero: Node is set
}

// Feed is a page of changes and the position to continue from.
type Feed struct {
	Items []Change
	Next  Position
	More  bool // more changes exist already
}

// Seq returns the seq of the tree's last committed change. Later changes have higher ones.
func (r Reader) Seq(ctx context.Context, q sqldb.Querier, account drive.AccountID) (seq int64, err error) {
	if err = q.QueryRow(ctx, "SELECT seq FROM trees WHERE account_id = ?", account).Scan(&seq); err != nil {
		err = fmt.Errorf("read the sequence of the tree of %s: %w", account, err)
	}
	return seq, err
}

// Seqs returns the seq of the last committed change of each account's tree, by account. An account
// without a tree has no entry.
func (r Reader) Seqs(ctx context.Context, q sqldb.Querier, accounts []drive.AccountID) (map[drive.AccountID]int64, error) {
	type at struct {
		account drive.AccountID
		seq     int64
	}
	seqs := make(map[drive.AccountID]int64, len(accounts))
	for some := range slices.Chunk(accounts, nodesPerStatement) {
		marks, in := sqldb.ListArgs(some)
		rows, err := q.Query(ctx, "SELECT account_id, seq FROM trees WHERE account_id IN ("+marks+")", in...)
		all, err := sqldb.Scan(rows, err, func(a *at, scan func(...any) error) error { return scan(&a.account, &a.seq) })
		if err != nil {
			return nil, fmt.Errorf("read the sequences of %d trees: %w", len(accounts), err)
		}
		for _, a := range all {
			seqs[a.account] = a.seq
		}
	}
	return seqs, nil
}

// Changes returns up to limit changes of an account's tree after a position. It fails with Gone
// {reason: feed-expired} if tombstones after the position were dropped, or if the position is newer
// than the tree because the database was restored from a backup. The reader must then start from
// the beginning. An account without a tree is NotFound.
func (r Reader) Changes(ctx context.Context, q sqldb.Querier, account drive.AccountID, after Position, limit int) (Feed, error) {
	// Changes committed during these reads have a seq above top and come with the next page.
	var top, dropped int64
	err := q.QueryRow(ctx, "SELECT seq FROM trees WHERE account_id = ?", account).Scan(&top)
	if err != nil {
		return Feed{}, err
	}
	nodes, err := r.queryNodes(ctx, q, "WHERE n.account_id = ? AND n.seq > ? AND n.seq <= ? ORDER BY n.seq LIMIT ?",
		account, after.Seq, top, limit+1)
	if err != nil {
		return Feed{}, fmt.Errorf("read changed nodes: %w", err)
	}
	tombstones, err := r.tombstones(ctx, q, account, after.Seq, top, limit+1)
	if err != nil {
		return Feed{}, fmt.Errorf("read tombstones: %w", err)
	}
	if after == (Position{}) {
		after.Base = top
	}
	// Read last, so that no tombstone can have been dropped before it was read.
	err = q.QueryRow(ctx, "SELECT forgotten FROM trees WHERE account_id = ?", account).Scan(&dropped)
	switch {
	case err != nil:
		return Feed{}, err
	case after.Seq > top, max(after.Seq, after.Base) < dropped:
		return Feed{}, drive.Fail(drive.Gone, "reason", "feed-expired")
	}
	return page(merge(nodes, tombstones), Position{Seq: top, Base: after.Base}, limit), nil
}

// tombstones returns up to limit tombstones with after < seq <= top.
func (r Reader) tombstones(ctx context.Context, q sqldb.Querier, account drive.AccountID, after, top int64, limit int) ([]Change, error) {
	rows, err := q.Query(ctx, `SELECT seq, node_id FROM tombstones WHERE account_id = ? AND seq > ? AND seq <= ?
		ORDER BY seq LIMIT ?`, account, after, top, limit)
	return sqldb.Scan(rows, err, func(c *Change, scan func(...any) error) error { return scan(&c.Seq, &c.Deleted) })
}

// merge combines nodes and tombstones, each ordered by seq, into one list ordered by seq.
func merge(nodes []Node, tombstones []Change) []Change {
	all := make([]Change, 0, len(nodes)+len(tombstones))
	for _, n := range nodes {
		for len(tombstones) > 0 && tombstones[0].Seq < n.Seq {
			all, tombstones = append(all, tombstones[0]), tombstones[1:]
		}
		all = append(all, Change{Seq: n.Seq, Node: n})
	}
	return append(all, tombstones...)
}

// page limits the merged changes to limit entries. next is the position after all of them.
func page(all []Change, next Position, limit int) Feed {
	f := Feed{Items: all, Next: next}
	if len(all) > limit {
		f.Items, f.More = all[:limit], true
		f.Next.Seq = all[limit-1].Seq
	}
	if f.Next.Seq >= f.Next.Base {
		f.Next.Base = 0
	}
	return f
}
