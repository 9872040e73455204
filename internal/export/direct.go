package export

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/export/zipline"
)

// OpenDirect lays out a zip from the current contents of the selected files, without a row, a
// reference or a temporary file. The caller can send it at once and must close it. The zip and its
// ETag are stable while the files do not change; if a file is purged during the download, the
// download breaks off. OpenDirect ignores Filter, Manifest and Priority. It returns BadRequest for
// an empty selection, TooLarge for too many files, and Unavailable if no memory is left. The memory
// is accounted to client, a user or an address.
func (e *Exports) OpenDirect(ctx context.Context, who drive.Who, client string, in Request) (Download, error) {
	return e.sender.direct(ctx, who, client, in)
}

// direct acquires memory for client and lays out the zip that in asks for, which is not stored. It
// returns the errors of Budget.Acquire and layDirect. Without an error the caller must close the
// Download, which releases the memory.
func (s *sender) direct(ctx context.Context, who drive.Who, client string, in Request) (Download, error) {
	grant, err := s.budget.Acquire(ctx, client, directMemory, directMemory)
	if err != nil {
		return Download{}, err
	}
	d, err := s.layDirect(ctx, who, grant, in)
	if err != nil {
		grant.Close()
		return Download{}, err
	}
	d.grant, d.Account, d.Selected = grant, who.Account, in.Nodes
	if len(in.Nodes) == 0 && !in.Folder.IsZero() {
		d.Selected = []drive.NodeID{in.Folder}
	}
	return d, nil
}

const (
	directMemory   = directWindow + 2*drive.MiB // initial memory of a download: read-ahead, and about 4,000 entries during layout
	directWindow   = 2 * drive.MiB              // read-ahead buffer of a download
	directStep     = 2 * drive.MiB              // growth step of the memory for a longer list
	directParallel = 8                          // objects that a download reads in parallel
	directMost     = 100_000                    // most files, and most folders, in a download
	directNames    = 16 * drive.MiB             // bytes of all names in a download: 160 for each file
)

// layDirect lays out the zip of the nodes that in names, and shrinks grant, the memory of the
// download, to what the zip needs. It waits for one of the account's turns first. It returns
// BadRequest if nothing is selected, TooLarge above the limits, and the cause of the eviction if
// grant is evicted. On an error the caller closes grant.
func (s *sender) layDirect(ctx context.Context, who drive.Who, grant *zipline.Grant, in Request) (Download, error) {
	ctx, leave := grant.EvictionContext(ctx)
	defer leave()
	end, err := acquireTurn(ctx, s.turns, who.Account)
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
		return Download{}, drive.BadField("nodes", drive.Required)
	}
	if err := p.fillContents(ctx); err != nil {
		return Download{}, fmt.Errorf("look up the files of a zip: %w", err)
	}
	collected := len(p.entries)
	archive, err := zipline.Layout(part{}.nameEntries(p.entries, p.wanted, p.report.Bytes(), p.newest))
	if err != nil {
		return Download{}, fmt.Errorf("lay out a zip: %w", err)
	}
	if err := context.Cause(ctx); err != nil { // the grant was evicted during the layout
		return Download{}, err
	}
	grant.Shrink(directWindow + max(drive.ByteSize(memoryOf(archive)), directMemory-directWindow))
	view := View{
		Name: in.Name, Revision: 1, State: Sealed, Total: int64(total), Collected: int64(collected), Failed: int64(total - collected),
		Size: archive.Size(), ETag: archive.ETag(),
	}
	return Download{View: view, archive: archive, sender: s}, nil
}

// Close releases the memory of a download from OpenDirect, OpenArchive or OpenSoFar. For other
// downloads it does nothing.
func (d Download) Close() {
	if d.grant != nil {
		d.grant.Close()
	}
}
