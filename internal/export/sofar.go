package export

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/export/zipline"
)

// OpenSoFar returns a zip of what a batch has collected just now, for whoever cannot wait for the
// rest; a sealed batch is opened as by Open. Entries that are still missing are in err.txt, with
// the reason pending. Nothing of it is kept: it is another zip, with another ETag, once more has
// arrived, and the end of the batch breaks it off. Its memory is taken in the name of client, a
// user or an address; when there is none it is Unavailable. The caller closes the download.
func (e *Exports) OpenSoFar(ctx context.Context, who drive.Who, client string, id drive.ExportID) (Download, error) {
	return e.sender.openSoFar(ctx, who, client, id)
}

// memoryOfRows is what entries take while a zip in a directory of the given name is laid out: their
// rows, their names as they are wanted, given and checked, and their lines of err.txt or the index.
func memoryOfRows(rows []sealRow, in string) (n drive.ByteSize) {
	for _, r := range rows {
		n += planMemory + drive.ByteSize(3*(len(in)+1+len(r.name))+2*(len(r.path)+len(r.doc)+len(r.detail)))
	}
	return n
}

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
	grant, err := s.windows.Take(ctx, client, directMemory, directMemory)
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

func (s *sender) laySoFar(ctx context.Context, grant *zipline.Grant, b batch) (*zipline.Archive, error) {
	ctx, leave := grant.Within(ctx)
	defer leave()
	end, err := enter(ctx, s.laying, b.Account)
	if err != nil {
		return nil, err
	}
	defer end()
	a, err := b.asked()
	if err != nil {
		return nil, err
	}
	p := plan{sender: s, account: b.Account, grant: grant}
	entries, err := s.entries(ctx, &b, a.Index, func(n drive.ByteSize) error { return p.take(ctx, n) })
	if err != nil {
		return nil, err
	}
	archive, err := zipline.Layout(entries)
	if err != nil {
		return nil, fmt.Errorf("lay out what batch %s has so far: %w", b.ID, err)
	}
	if err := context.Cause(ctx); err != nil { // the memory was taken away while nobody looked
		return nil, err
	}
	grant.Shrink(directWindow + max(drive.ByteSize(memoryOf(archive)), directMemory-directWindow))
	return archive, nil
}
