package export

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/export/zipline"
)

// Direct returns a zip of what the files of a request hold just now, at once: it makes no row, no
// reference and no file, and it needs no place of a batch. Its bytes stay the same while the files
// do, which its ETag tells; a file that is deleted for good while it is sent breaks it off. Filter,
// Manifest and Priority are not looked at. A list of nothing is BadRequest, one that is too long
// TooLarge. Its memory is taken in the name of client, a user or an address; when there is none it
// is Unavailable. The caller closes the download.
func (e *Exports) Direct(ctx context.Context, who drive.Who, client string, in Request) (Download, error) {
	return e.sender.direct(ctx, who, client, in)
}

func (s *sender) direct(ctx context.Context, who drive.Who, client string, in Request) (Download, error) {
	grant, err := s.windows.Take(ctx, client, directMemory, directMemory)
	if err != nil {
		return Download{}, err
	}
	d, err := s.layDirect(ctx, who, grant, in)
	if err != nil {
		grant.Close()
		return Download{}, err
	}
	d.grant, d.Account, d.Picked = grant, who.Account, in.Nodes
	if len(in.Nodes) == 0 && !in.Folder.IsZero() {
		d.Picked = []drive.NodeID{in.Folder}
	}
	return d, nil
}

const (
	directMemory   = directWindow + 2*drive.MiB // of one: what is read ahead, and the list of some 4,000 entries while it is made
	directWindow   = 2 * drive.MiB              // read ahead of one
	directStep     = 2 * drive.MiB              // by which the memory of a longer list grows
	directParallel = 8                          // objects that are read at once for one
	directMost     = 100_000                    // files in one
	directNames    = 16 * drive.MiB             // of the names in one: 160 bytes for each of so many files
)

func (s *sender) layDirect(ctx context.Context, who drive.Who, grant *zipline.Grant, in Request) (Download, error) {
	ctx, leave := grant.Within(ctx)
	defer leave()
	end, err := enter(ctx, s.laying, who.Account)
	if err != nil {
		return Download{}, err
	}
	defer end()
	p := plan{sender: s, account: who.Account, grant: grant}
	if err := p.read(ctx, &in); err != nil {
		return Download{}, err
	}
	total := len(p.entries)
	if total == 0 {
		return Download{}, drive.Bad("nodes", drive.Required)
	}
	if err := p.fill(ctx); err != nil {
		return Download{}, fmt.Errorf("look up the files of a zip: %w", err)
	}
	collected := len(p.entries)
	archive, err := zipline.Layout(part{}.named(p.entries, p.wanted, p.report.Bytes(), p.newest))
	if err != nil {
		return Download{}, fmt.Errorf("lay out a zip: %w", err)
	}
	if err := context.Cause(ctx); err != nil { // the memory was taken away while nobody looked
		return Download{}, err
	}
	grant.Shrink(directWindow + max(drive.ByteSize(memoryOf(archive)), directMemory-directWindow))
	view := View{
		Name: in.Name, Revision: 1, State: Sealed, Total: int64(total), Collected: int64(collected), Failed: int64(total - collected),
		Size: archive.Size(), ETag: archive.ETag(),
	}
	return Download{View: view, archive: archive, sender: s}, nil
}

// Close gives back what a download has taken. It is needed for one of Direct.
func (d Download) Close() {
	if d.grant != nil {
		d.grant.Close()
	}
}
