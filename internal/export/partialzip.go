package export

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/export/zipline"
)

// OpenSoFar returns a zip of the entries that a batch has collected so far. The other entries are
// listed in err.txt with the reason pending. A sealed batch is opened as by Open. The zip is not
// stored: its ETag changes as entries arrive, and the end of the batch breaks the download off. The
// memory is accounted to client, a user or an address. It returns Unavailable without free memory,
// Gone for a batch that has expired or was cancelled, and WrongState for a failed one. The caller
// must close the Download.
func (e *Exports) OpenSoFar(ctx context.Context, who drive.Who, client string, id drive.ExportID) (Download, error) {
	return e.sender.openSoFar(ctx, who, client, id)
}

// memoryOfRows returns the memory that rows need during layout in a directory of the given name:
// rows, copies of their names, and lines of err.txt and the index.
func memoryOfRows(rows []sealRow, in string) (n drive.ByteSize) {
	for _, r := range rows {
		n += planMemory + drive.ByteSize(3*(len(in)+1+len(r.name))+2*(len(r.path)+len(r.doc)+len(r.detail)))
	}
	return n
}

// openSoFar implements Exports.OpenSoFar. On an error no memory is held.
func (s *sender) openSoFar(ctx context.Context, who drive.Who, client string, id drive.ExportID) (Download, error) {
	b, err := s.find(ctx, s.opt.DB, "WHERE id = ? AND account_id = ?", id, who.Account)
	if err != nil {
		return Download{}, err
	}
	now, err := s.now(ctx)
	if err != nil {
		return Download{}, err
	}
	v := b.view(now)
	switch v.State {
	case Pending, Running, Aborted:
	case Sealed:
		return s.open(ctx, who, id)
	case Failed, Cancelled, Expired:
		return Download{}, v.notSealed()
	}
	grant, err := s.budget.Acquire(ctx, client, directMemory, directMemory)
	if err != nil {
		return Download{}, err
	}
	archive, err := s.laySoFar(ctx, grant, b)
	if err != nil {
		grant.Close()
		return Download{}, err
	}
	v.Size, v.ETag = archive.Size(), archive.ETag()
	return Download{View: v, Account: b.Account, archive: archive, sender: s, grant: grant, soFar: true}, nil
}

// laySoFar lays out the entries of b that have arrived, and shrinks grant to what the zip needs. It
// waits for one of the account's turns first. It fails if grant is evicted or too small; the caller
// closes grant in each case.
func (s *sender) laySoFar(ctx context.Context, grant *zipline.Grant, b batch) (*zipline.Archive, error) {
	ctx, leave := grant.EvictionContext(ctx)
	defer leave()
	end, err := acquireTurn(ctx, s.turns, b.Account)
	if err != nil {
		return nil, err
	}
	defer end()
	a, err := b.storedRequest()
	if err != nil {
		return nil, err
	}
	p := plan{sender: s, account: b.Account, grant: grant}
	entries, err := s.zipEntries(ctx, &b, a.Index, func(n drive.ByteSize) error { return p.reserve(ctx, n) })
	if err != nil {
		return nil, err
	}
	archive, err := zipline.Layout(entries)
	if err != nil {
		return nil, fmt.Errorf("lay out what batch %s has so far: %w", b.ID, err)
	}
	if err := context.Cause(ctx); err != nil { // the grant was evicted during the layout
		return nil, err
	}
	grant.Shrink(directWindow + max(drive.ByteSize(memoryOf(archive)), directMemory-directWindow))
	return archive, nil
}
