package client

import (
	"context"
	"iter"
	"slices"
)

// A tree is listed folder by folder, and its files wait for that. So lists are fetched
// ahead: those of the folders that come next, and the next page of the one that is read.

const (
	foldersAhead = 7  // of a folder, whose lists are fetched while it is read
	listsAhead   = 32 // that may wait in all, with a page each
)

// lister lists the folders of a tree, one at a time.
type lister struct {
	c     *Client
	w     *crew         // waits for what is on its way
	ahead chan struct{} // has one for each list that was begun ahead and waits
}

func newLister(c *Client, w *crew) *lister {
	return &lister{c: c, w: w, ahead: make(chan struct{}, listsAhead)}
}

// listing is the list of a folder.
type listing struct {
	folder string
	pages  chan listed // nil until it is begun
	stop   context.CancelFunc
	ahead  bool
}

// listed is a page.
type listed struct {
	nodes []Node
	err   error // instead of the page, which is the last one
}

// child is what is in a folder; within is the list of one that is a folder itself.
type child struct {
	Node
	within *listing
}

// children yields what is in a folder. The list of a folder in it can be read until the next child.
// An error is the last thing it yields; who stops before the end cancels ctx.
func (l *lister) children(ctx context.Context, f *listing) iter.Seq2[child, error] {
	return func(yield func(child, error) bool) {
		for page := range l.read(ctx, f) {
			if page.err != nil {
				yield(child{}, page.err)
				return
			}
			next := l.expect(ctx, foldersOf(page.nodes))
			for _, n := range page.nodes {
				e := child{Node: n}
				if n.Type == Folder {
					e.within = next.take(ctx, n.ID)
				}
				if !yield(e, nil) {
					return
				}
				l.end(e.within)
			}
		}
	}
}

func foldersOf(nodes []Node) (ids []string) {
	for _, n := range nodes {
		if n.Type == Folder {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// read returns the pages of a list. Who stops before the end ends the list, or cancels ctx.
func (l *lister) read(ctx context.Context, f *listing) <-chan listed {
	l.begin(ctx, f)
	l.leave(f)
	return f.pages
}

// expected are folders that will be listed, in their order.
type expected struct {
	l    *lister
	next []*listing
}

// expect begins the lists of the first of some folders.
func (l *lister) expect(ctx context.Context, folders []string) *expected {
	x := &expected{l: l, next: make([]*listing, len(folders))}
	for i, id := range folders {
		x.next[i] = &listing{folder: id}
	}
	x.begin(ctx)
	return x
}

// take returns the list of a folder, which the caller ends, and begins that of one more; nil: it
// was not expected. Those before it are not listed any more.
func (x *expected) take(ctx context.Context, folder string) *listing {
	at := slices.IndexFunc(x.next, func(f *listing) bool { return f.folder == folder })
	if at < 0 {
		return nil
	}
	f, rest := x.next[at], x.next[at+1:]
	x.next = x.next[:at]
	x.end()
	x.next = rest
	x.begin(ctx)
	return f
}

// begin begins the lists of the next folders, as far as there is room for what waits.
func (x *expected) begin(ctx context.Context) {
	for _, f := range x.next[:min(len(x.next), foldersAhead)] {
		if f.pages != nil {
			continue
		}
		select {
		case x.l.ahead <- struct{}{}:
			f.ahead = true
			x.l.begin(ctx, f)
		default:
			return
		}
	}
}

// end ends what was begun and not taken.
func (x *expected) end() {
	for _, f := range x.next {
		x.l.end(f)
	}
	x.next = nil
}

// begin fetches a list, each page while the one before it is read.
func (l *lister) begin(ctx context.Context, f *listing) {
	if f.pages != nil {
		return
	}
	f.pages = make(chan listed)
	ctx, f.stop = context.WithCancel(ctx)
	l.w.wait.Go(func() {
		defer close(f.pages)
		for nodes, err := range pages(func(p Page) (List[Node], error) { return l.c.Children(ctx, f.folder, p) }) {
			select {
			case f.pages <- listed{nodes, err}:
			case <-ctx.Done():
				return
			}
		}
	})
}

// leave gives the room of a list that was begun ahead to another one.
func (l *lister) leave(f *listing) {
	if f.ahead {
		f.ahead = false
		<-l.ahead
	}
}

// end ends a list, whether it was read or not.
func (l *lister) end(f *listing) {
	if f != nil && f.pages != nil {
		l.leave(f)
		f.stop()
	}
}
