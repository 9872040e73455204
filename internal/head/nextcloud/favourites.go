package nextcloud

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/star"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/usecase/files"
)

// Favourites of the clients are stars of the web pages.

// favourite is the property of a favourite: 1 or 0.
var favourite = dav.Name{Space: owncloud, Local: "favorite"}

// setFavourite stars e for the caller; with remove, or a text of "", "0" or "false", it removes the
// star. Both may be repeated. It fails with drive.NotFound, and drive.TooManyOpen for too many
// stars.
func (c *call) setFavourite(ctx context.Context, e dav.Entry, _ dav.Name, text string, remove bool) error {
	if remove || text == "0" || text == "" || text == "false" {
		return c.Shelf.Unstar(ctx, c.who, e.Node)
	}
	return c.Shelf.Star(ctx, c.who, e.Node)
}

// favourites handles REPORT oc:filter-files. With the rule oc:favorite it lists starred nodes at
// the location and below. For other rules, which filter by tags, it returns nothing. A node outside
// of the location is left out.
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
