package agent

import (
	"context"
	"errors"
	"io"
	"path"

	"smartdrive/client"
)

// Small members go many in one request: a bundle of a thousand invoices is a dozen requests, and
// the server makes them durable together.

// Sizes of the batches of a bundle.
const (
	batchedSize  = 256 << 10 // a member up to this goes by batch, in bytes
	batchedBytes = 4 << 20   // of the members of one batch, which are in memory
	batchedItems = 250       // members of one batch
	batchesMost  = 4         // on their way at once
)

// batches are the numbers of the members that go by batch, a list for each; alone are those of the
// others.
func (f *flight) batches(known map[string]client.Node) (batches [][]int, alone []int) {
	var batch []int
	var bytes int64
	for n, m := range f.Manifest.Members {
		if _, there := known[m.Name]; there || m.Size > batchedSize {
			alone = append(alone, n)
			continue
		}
		if len(batch) == batchedItems || bytes+m.Size > batchedBytes {
			batches, batch, bytes = append(batches, batch), nil, 0
		}
		batch, bytes = append(batch, n), bytes+m.Size
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	return batches, alone
}

// sendMany sends members in one batch, and returns those that are to be sent alone, which also
// tells what is wrong with them.
func (a *Agent) sendMany(ctx context.Context, f *flight, batch []int, p *progress) (alone []int, err error) {
	items := make([]client.BatchItem, len(batch))
	for i, n := range batch {
		if items[i], err = a.batchItem(f, n); err != nil {
			return nil, &memberError{n, err}
		}
	}
	answers, err := a.up.Batch(ctx, items, p.stuck)
	if err != nil && !client.LacksBatch(err) {
		return nil, &memberError{batch[0], err}
	}
	for i, n := range batch {
		if err != nil || answers[i].Node == nil {
			alone = append(alone, n)
			continue
		}
		if got := answers[i].Node; got.Size != f.Manifest.Members[n].Size || got.Digest() != f.Files[n].BLAKE3 {
			return nil, &memberError{n, errChanged}
		}
		p.done(n)
		if err := a.at("member"); err != nil {
			return nil, err
		}
	}
	a.contact()
	return alone, nil
}

// batchItem reads a member as it was frozen.
func (a *Agent) batchItem(f *flight, n int) (client.BatchItem, error) {
	m, from := f.Manifest.Members[n], f.Files[n]
	file, err := a.openAs(from.Path, from.Size, from.Mtime)
	if err != nil {
		return client.BatchItem{}, err
	}
	defer letGo(file)
	content := make([]byte, from.Size)
	if _, err := io.ReadFull(file, content); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errChanged
		}
		return client.BatchItem{}, err
	}
	if !same(file, from.Size, from.Mtime) {
		return client.BatchItem{}, errChanged
	}
	item := client.BatchItem{
		Op: client.BatchPut, Path: path.Join(f.folder(), m.Name), Conflict: client.Fail, Parents: true, MIME: m.Type, Content: content,
		Digests: client.Digests{"blake3": from.BLAKE3},
	}
	if mtime := from.Mtime.UTC(); !mtime.IsZero() {
		item.Mtime = &mtime
	}
	return item, nil
}
