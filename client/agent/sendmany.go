package agent

import (
	"context"
	"errors"
	"io"
	"path"

	"example.org/smartdrive/client"
)

// Small members are sent many per request: a bundle of a thousand invoices takes a dozen requests,
// and the server makes their files durable together.

// Limits of the batches of a bundle.
const (
	maxBatchedFile = 256 << 10 // largest member that is batched, in bytes
	maxBatchBytes  = 4 << 20   // total size of the members of one batch, which are in memory
	maxBatchItems  = 250       // members of one batch
	maxBatches     = 4         // concurrent batches
)

// batches groups the members to be sent in batches, by index, and returns the indexes of the others
// in alone: large members, and those that the server has, which are in known.
func (b *outgoing) batches(known map[string]client.Node) (batches [][]int, alone []int) {
	var batch []int
	var bytes int64
	for n, m := range b.Manifest.Members {
		if _, there := known[m.Name]; there || m.Size > maxBatchedFile {
			alone = append(alone, n)
			continue
		}
		if len(batch) == maxBatchItems || bytes+m.Size > maxBatchBytes {
			batches, batch, bytes = append(batches, batch), nil, 0
		}
		batch, bytes = append(batch, n), bytes+m.Size
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	return batches, alone
}

// sendMany sends members in one batch. It returns the members that are to be sent individually;
// sending them reports what is wrong with them. The error is a *memberError.
func (a *Agent) sendMany(ctx context.Context, b *outgoing, batch []int, p *progress) (alone []int, err error) {
	items := make([]client.BatchItem, len(batch))
	for i, n := range batch {
		if items[i], err = a.batchItem(b, n); err != nil {
			return nil, &memberError{n, err}
		}
	}
	answers, err := a.uploader.Batch(ctx, items, p.setError)
	if err != nil && !client.IsBatchUnsupported(err) {
		return nil, &memberError{batch[0], err}
	}
	for i, n := range batch {
		if err != nil || answers[i].Node == nil {
			alone = append(alone, n)
			continue
		}
		if got := answers[i].Node; got.Size != b.Manifest.Members[n].Size || got.Digest() != b.Files[n].BLAKE3 {
			return nil, &memberError{n, errChanged}
		}
		p.memberDone(n)
		if err := a.hook("member"); err != nil {
			return nil, err
		}
	}
	a.recordContact()
	return alone, nil
}

// batchItem reads member n and returns its batch item. It fails with errChanged if the file is not
// as it was frozen.
func (a *Agent) batchItem(b *outgoing, n int) (client.BatchItem, error) {
	m, from := b.Manifest.Members[n], b.Files[n]
	file, err := a.openUnchanged(from.Path, from.Size, from.Mtime)
	if err != nil {
		return client.BatchItem{}, err
	}
	defer closeQuietly(file)
	content := make([]byte, from.Size)
	if _, err := io.ReadFull(file, content); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errChanged
		}
		return client.BatchItem{}, err
	}
	if !isUnchanged(file, from.Size, from.Mtime) {
		return client.BatchItem{}, errChanged
	}
	item := client.BatchItem{
		Op: client.BatchPut, Path: path.Join(b.folder(), m.Name), Conflict: client.Fail, Parents: true, MIME: m.Type, Content: content,
		Digests: client.Digests{"blake3": from.BLAKE3},
	}
	if mtime := from.Mtime.UTC(); !mtime.IsZero() {
		item.Mtime = &mtime
	}
	return item, nil
}
