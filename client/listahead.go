package client

import (
	"context"
	"iter"
	"slices"
)

// A tree is listed folder by folder, and its files wait for the listing. To hide the latency, the
// lister prefetches the listings of the next folders and the next page of the current one.

const (
	prefetchFolders = 7  // subfolders whose listings are prefetched
	maxPrefetched   = 32 // prefetched listings in total, each holding one page
)

// lister lists the folders of a tree and prefetches listings.
type lister struct {
	c     *Client
	pool  *pool         // its finish waits for the fetching goroutines
	slots chan struct{} // semaphore of the prefetched listings
}

// newLister returns a lister whose goroutines p waits for.
func newLister(c *Client, p *pool) *lister {
	return &lister{c: c, pool: p, slots: make(chan struct{}, maxPrefetched)}
}

// listing is the listing of one folder, which may be fetched before it is read. Its reader must
// read all pages or call lister.stop.
type listing struct {
	folder string
	pages  chan listedPage // nil until started
	stop   context.CancelFunc
	// prefetched tells that the listing occupies a slot of lister.slots.
	prefetched bool
}

// listedPage is one page of a listing, or the error that ended it.
type listedPage struct {
	nodes []Node
	err   error // if not nil, nodes is invalid and this is the last page
}

// childNode is a node of a folder. listing is the prefetched listing of a subfolder, nil for a
// file.
type childNode struct {
	Node
	listing *listing
}

// children yields the nodes of a folder, and an error last. The listing of a child is valid until
// the next iteration. A caller that stops early must cancel ctx.
func (l *lister) children(ctx context.Context, f *listing) iter.Seq2[childNode, error] {
	return func(yield func(childNode, error) bool) {
		for page := range l.read(ctx, f) {
			if page.err != nil {
				yield(childNode{}, page.err)
				return
			}
			next := l.prefetch(ctx, foldersOf(page.nodes))
			for _, n := range page.nodes {
				e := childNode{Node: n}
				if n.Type == Folder {
					e.listing = next.take(ctx, n.ID)
				}
				if !yield(e, nil) {
					return
				}
				l.stop(e.listing)
			}
		}
	}
}

// foldersOf returns the ids of the folders among nodes.
func foldersOf(nodes []Node) (ids []string) {
	for _, n := range nodes {
		if n.Type == Folder {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// read returns the channel of the pages of a listing, which it starts to fetch unless that was
// done, and frees the listing's slot. The channel is closed after the last page or an error. A
// caller that stops early must call stop or cancel ctx.
func (l *lister) read(ctx context.Context, f *listing) <-chan listedPage {
	l.start(ctx, f)
	l.releaseSlot(f)
	return f.pages
}

// prefetch is a queue of folders whose listings will be needed, in order.
type prefetch struct {
	lister  *lister
	pending []*listing
}

// prefetch returns a queue of the listings of folders, in order, and starts fetching the first ones
// in the background. The caller must call stop on it.
func (l *lister) prefetch(ctx context.Context, folders []string) *prefetch {
	x := &prefetch{lister: l, pending: make([]*listing, len(folders))}
	for i, id := range folders {
		x.pending[i] = &listing{folder: id}
	}
	x.start(ctx)
	return x
}

// take returns the listing of a folder and starts prefetching the next one. The caller stops the
// returned listing. Folders queued before the returned one are dropped. It returns nil if the
// folder is not in the queue.
func (p *prefetch) take(ctx context.Context, folder string) *listing {
	at := slices.IndexFunc(p.pending, func(f *listing) bool { return f.folder == folder })
	if at < 0 {
		return nil
	}
	f, rest := p.pending[at], p.pending[at+1:]
	p.pending = p.pending[:at]
	p.stop()
	p.pending = rest
	p.start(ctx)
	return f
}

// start starts fetching the next listings, at most prefetchFolders of them, as far as slots are
// free. It does not wait.
func (p *prefetch) start(ctx context.Context) {
	for _, f := range p.pending[:min(len(p.pending), prefetchFolders)] {
		if f.pages != nil {
			continue
		}
		select {
		case p.lister.slots <- struct{}{}:
			f.prefetched = true
			p.lister.start(ctx, f)
		default:
			return
		}
	}
}

// stop cancels the listings that the caller has not fetched from the queue, releases their slots
// and empties the queue.
func (p *prefetch) stop() {
	for _, f := range p.pending {
		p.lister.stop(f)
	}
	p.pending = nil
}

// start fetches a listing in the background, one page ahead of the reader. It does nothing if the
// listing was started before.
func (l *lister) start(ctx context.Context, f *listing) {
	if f.pages != nil {
		return
	}
	f.pages = make(chan listedPage)
	ctx, f.stop = context.WithCancel(ctx)
	l.pool.running.Go(func() {
		defer close(f.pages)
		for nodes, err := range pages(func(p Page) (List[Node], error) { return l.c.Children(ctx, f.folder, p) }) {
			select {
			case f.pages <- listedPage{nodes, err}:
			case <-ctx.Done():
				return
			}
		}
	})
}

// releaseSlot frees the prefetch slot of a listing that is being read or stopped.
func (l *lister) releaseSlot(f *listing) {
	if f.prefetched {
		f.prefetched = false
		<-l.slots
	}
}

// stop cancels the fetching of a listing and frees its slot. It does nothing for nil and for a
// listing that was not started.
func (l *lister) stop(f *listing) {
	if f != nil && f.pages != nil {
		l.releaseSlot(f)
		f.stop()
	}
}
