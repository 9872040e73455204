package tree

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// The feed lists every node that is there, and every tombstone, in the order of seq. A replica that
// applies it from the beginning has the same nodes; a node may come before its parent, and what
// lies in a trashed folder is not live though it has no mark of its own and does not come again
// when the folder is restored.

// Position is how far a reader of the feed has come. Its text form is "<seq>", or "<seq>.<base>" on
// the way through the first reading.
type Position struct {
	Seq int64
	// Base is the tree's seq at the moment of the first page, until the reader has come there. Such
	// a reader misses no tombstone up to it: it was told of no node that was deleted before.
	Base int64
}

// ParsePosition reads the text form; empty is the beginning.
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
		return Position{}, drive.Bad("after", drive.Malformed, "expected", "what the last page gave as next")
	}
	return p, nil
}

func parseSeq(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n < 0 {
		err = strconv.ErrRange
	}
	return n, err
}

func (p Position) String() string {
	if p.Base == 0 {
		return strconv.FormatInt(p.Seq, 10)
	}
	return strconv.FormatInt(p.Seq, 10) + "." + strconv.FormatInt(p.Base, 10)
}

// Change is one entry of the feed: a node as it is now, or the id of one that was deleted.
type Change struct {
	Seq     int64
	Node    Node
	Deleted drive.NodeID // zero: see Node
}

// Feed is a page of changes.
type Feed struct {
	Items []Change
	Next  Position
	More  bool // there is more already
}

// Seq is the tree's number of the last change that is committed: what comes later has a higher one.
func (r Reader) Seq(ctx context.Context, q sqldb.Querier, account drive.AccountID) (seq int64, err error) {
	if err = q.QueryRow(ctx, "SELECT seq FROM trees WHERE account_id = ?", account).Scan(&seq); err != nil {
		err = fmt.Errorf("read the sequence of the tree of %s: %w", account, err)
	}
	return seq, err
}

// Seqs is Seq of many accounts, by one statement. One that is missing has no tree.
func (r Reader) Seqs(ctx context.Context, q sqldb.Querier, accounts []drive.AccountID) (map[drive.AccountID]int64, error) {
	type at struct {
		account drive.AccountID
		seq     int64
	}
	seqs := make(map[drive.AccountID]int64, len(accounts))
	for some := range slices.Chunk(accounts, manyAtOnce) {
		marks, in := sqldb.In(some)
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

// Changes returns up to limit changes after a position. A position that is older than the
// tombstones that are kept, or newer than the tree (the database was restored from a backup), is
// Gone {reason: feed-expired}: start again from the beginning.
func (r Reader) Changes(ctx context.Context, q sqldb.Querier, account drive.AccountID, after Position, limit int) (Feed, error) {
	// What is committed during the reads has a seq above the top that was read first, and comes
	// with the next page.
	var top, forgotten int64
	err := q.QueryRow(ctx, "SELECT seq FROM trees WHERE account_id = ?", account).Scan(&top)
	if err != nil {
		return Feed{}, err
	}
	nodes, err := r.queryNodes(ctx, q, "WHERE n.account_id = ? AND n.seq > ? AND n.seq <= ? ORDER BY n.seq LIMIT ?",
		account, after.Seq, top, limit+1)
	if err != nil {
		return Feed{}, fmt.Errorf("read changed nodes: %w", err)
	}
	graves, err := r.tombstones(ctx, q, account, after.Seq, top, limit+1)
	if err != nil {
		return Feed{}, fmt.Errorf("read tombstones: %w", err)
	}
	if after == (Position{}) {
		after.Base = top
	}
	// Read last, so that no tombstone can have been dropped before it was read.
	err = q.QueryRow(ctx, "SELECT forgotten FROM trees WHERE account_id = ?", account).Scan(&forgotten)
	switch {
	case err != nil:
		return Feed{}, err
	case after.Seq > top, max(after.Seq, after.Base) < forgotten:
		return Feed{}, drive.Fail(drive.Gone, "reason", "feed-expired")
	}
	return page(merge(nodes, graves), Position{Seq: top, Base: after.Base}, limit), nil
}

func (r Reader) tombstones(ctx context.Context, q sqldb.Querier, account drive.AccountID, after, top int64, limit int) ([]Change, error) {
	rows, err := q.Query(ctx, `SELECT seq, node_id FROM tombstones WHERE account_id = ? AND seq > ? AND seq <= ?
		ORDER BY seq LIMIT ?`, account, after, top, limit)
	return sqldb.Scan(rows, err, func(c *Change, scan func(...any) error) error { return scan(&c.Seq, &c.Deleted) })
}

func merge(nodes []Node, graves []Change) []Change {
	all := make([]Change, 0, len(nodes)+len(graves))
	for _, n := range nodes {
		for len(graves) > 0 && graves[0].Seq < n.Seq {
			all, graves = append(all, graves[0]), graves[1:]
		}
		all = append(all, Change{Seq: n.Seq, Node: n})
	}
	return append(all, graves...)
}

// page cuts the merged changes to the limit; next is the position after all of them.
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
