package rest

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/share"
)

// sharedZips serves folders of a share as zips, which are computed while they are sent.
type sharedZips struct {
	visits  publicShares
	exports *export.Exports
	sending *server.Limiter[netip.Prefix] // limits concurrent zips per address
}

// routes returns the declarations of the routes that sharedZips serves. It registers nothing.
func (s sharedZips) routes() []route {
	return []route{{
		id: "downloadPublicFolder", method: "GET", path: sharedPath + "/zip", access: open, action: withoutBody(s.get),
		query:    []param{ticketParam, {name: "nodes", doc: "only these nodes below it: up to 100 ids with commas between them"}},
		header:   []string{"Range", "If-Range", "If-None-Match", "If-Match"},
		summary:  "Download a folder of a share as a zip. It is computed while it is sent; a request that begins at its first byte is one download, however many files there are.",
		outcomes: zipOutcomes(), errors: append([]drive.Kind{drive.TooLarge, drive.Rate, drive.Unavailable, drive.Precondition, drive.Range}, shareErrors()...),
	}}
}

const (
	maxPicked = 100 // largest number of nodes in one request
	// maxZips bounds the zips of shares sent to one address at a time. All addresses share few
	// slots, and a slow client occupies one for long.
	maxZips = 4
)

// get serves GET /public/shares/{token}/nodes/{id}/zip. Beyond the errors common to all routes it
// fails with drive.TooLarge, drive.Rate, drive.Unavailable, drive.Precondition, drive.Range or the
// errors of shareErrors.
func (s sharedZips) get(ctx context.Context, c *call) (reply, error) {
	v, n, path, err := s.visits.findNode(ctx, c)
	if err != nil {
		return reply{}, err
	}
	wish := export.Request{Name: string(n.Name), Nodes: []drive.NodeID{n.ID}}
	if n.IsFolder() {
		wish.Nodes, wish.Folder = nil, n.ID
	}
	if text := c.query.Get("nodes"); text != "" {
		if wish.Nodes, err = s.parseNodes(ctx, v, text, path); err != nil {
			return reply{}, err
		}
		wish.Folder = drive.NodeID{}
	}
	release, err := s.sending.Acquire(c.network())
	if err != nil {
		return reply{}, err
	}
	defer release()
	d, err := s.exports.OpenDirect(ctx, v.Who(), c.reader(), wish)
	if err != nil {
		return reply{}, err
	}
	defer d.Close()
	// A visitor who has begun one zip of a folder may continue with another zip of the same folder,
	// because the first one contained all of it.
	sends, fromStart := wouldSend(ctx, c, d.ETag, "application/zip", int64(d.Size), time.Time{})
	if err := s.visits.countDownload(ctx, v, n.ID, sends, fromStart); err != nil {
		return reply{}, err
	}
	return sendZip(ctx, c, d)
}

// parseNodes parses the ids of nodes in a share. It fails with drive.NotFound for a node that is
// not below path.
func (s sharedZips) parseNodes(ctx context.Context, v share.Visit, text string, path drive.Path) (ids []drive.NodeID, err error) {
	names := strings.Split(text, ",")
	if len(names) > maxPicked {
		return nil, drive.BadField("nodes", drive.OutOfRange, "min", 1, "max", maxPicked, "sent", len(names))
	}
	above := strings.TrimSuffix(path.String(), "/") + "/"
	for _, name := range names {
		id, err := drive.ParseID[drive.NodeID](name)
		if err != nil {
			return nil, err
		}
		_, at, err := s.visits.shares.FindWithin(ctx, v, id)
		if err == nil && !strings.HasPrefix(at.String(), above) {
			err = drive.Fail(drive.NotFound)
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
