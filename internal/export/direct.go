package export

import (
	"bytes"
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/export/zipline"
)

// Direct returns a zip of what the files of a request hold just now, at once: no row, no reference,
// no file is made. Its bytes stay the same while the files do, which its ETag tells; a file that is
// deleted for good while it is sent breaks it off. An empty list is BadRequest, one that is too
// long TooLarge. Its memory is taken in the name of client, an address; when there is none it is
// Unavailable. The caller closes the download.
func (e *Exports) Direct(ctx context.Context, who drive.Who, client string, in Request) (Download, error) {
	grant, err := e.windows.Take(ctx, client, directMemory, directMemory)
	if err != nil {
		return Download{}, err
	}
	d, err := e.layDirect(ctx, who, in)
	if err != nil {
		grant.Close()
		return Download{}, err
	}
	d.grant = grant
	return d, nil
}

const (
	directMemory   = directWindow + 2*drive.MiB // of one: what is read ahead, and the list of 10,000 entries
	directWindow   = 2 * drive.MiB              // read ahead of one
	directParallel = 8                          // objects that are read at once for one
)

func (e *Exports) layDirect(ctx context.Context, who drive.Who, in Request) (Download, error) {
	end, err := e.turn(ctx)
	if err != nil {
		return Download{}, err
	}
	defer end()
	in.most = directText
	list, err := e.list(ctx, who, &in)
	if err != nil {
		return Download{}, err
	}
	if len(list) == 0 {
		return Download{}, drive.Bad("nodes", drive.Required)
	}
	now, err := e.now(ctx)
	if err != nil {
		return Download{}, err
	}
	var entries []zipline.Entry
	wanted := make([]string, 0, len(list))
	var report bytes.Buffer
	r := &run{Exports: e, b: &batch{Account: who.Account}, live: map[drive.NodeID]bool{}}
	for at := 0; at < len(list); at += folderPage {
		page := list[at:min(at+folderPage, len(list))]
		for i := range page {
			page[i].N = int64(at+i) + 1
		}
		var found dealt
		if err := r.resolveHere(ctx, page, &found); err != nil {
			return Download{}, fmt.Errorf("look up the files of a zip: %w", err)
		}
		for _, p := range found.pins {
			wanted = append(wanted, in.Name+"/"+p.w.Name)
			entries = append(entries, zipline.Entry{Size: p.size, CRC32: p.crc32, Time: p.mtime, Blob: p.blob.String()})
		}
		for _, f := range found.errors {
			writeError(&report, sealRow{path: f.w.Name, reason: f.reason, detail: f.detail})
		}
	}
	archive, err := zipline.Layout(named(entries, wanted, report.Bytes(), now))
	if err != nil {
		return Download{}, fmt.Errorf("lay out a zip: %w", err)
	}
	view := View{Name: in.Name, Revision: 1, State: Sealed, Total: int64(len(list)), Size: archive.Size(), ETag: archive.ETag()}
	return Download{View: view, archive: archive, exports: e}, nil
}

// Close gives back what a download has taken. It is needed for one of Direct.
func (d Download) Close() {
	if d.grant != nil {
		d.grant.Close()
	}
}
