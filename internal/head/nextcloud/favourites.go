package nextcloud

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/star"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/usecase/files"
)

// Favourites of the clients are stars of the web pages.

// favourite is the property that says whether the caller has starred the node: 1 or 0.
var favourite = dav.Name{Space: owncloud, Local: "favorite"}

// setFavourite stars e for the caller. With remove, or a text of "", "0" or "false", it removes the
// star instead. Starring twice, or removing a missing star, is no error. It fails with
// drive.NotFound, and with drive.TooManyOpen for too many stars.
func (c *call) setFavourite(ctx context.Context, e dav.Entry, _ dav.Name, text string, remove bool) error {
	if remove || text == "0" || text == "" || text == "false" {
		return c.Shelf.Unstar(ctx, c.who, e.Node)
	}
	return c.Shelf.Star(ctx, c.who, e.Node)
}

// favourites handles REPORT oc:filter-files. With oc:favorite 1 as its only rule it lists the
// starred nodes at or below the request's location. For other rules, which filter by tags, and for
// other reports it sends an empty list.
func (c *call) favourites(ctx context.Context, prefix string) error {
	f, err := dav.ReadFilter(c.r, dav.Name{Space: owncloud, Local: "filter-files"}, dav.Name{Space: owncloud, Local: "filter-rules"})
	if drive.IsKind(err, drive.BadRequest) { // another report, such as comments or tags
		return c.multistatus()
	}
	if err != nil {
		return err
	}
	var starred []files.NodeView
	if f.Rules[favourite] == "1" && len(f.Rules) == 1 {
		page, err := c.Shelf.Starred(ctx, c.who, "", star.MaxPerUser)
		if err != nil {
			return err
		}
		starred = page.Items
	}
	return c.DAV.Report(ctx, c.w, c.r, c.view(ctx, prefix), f, starred)
}
