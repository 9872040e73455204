package fsck

import (
	"context"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// comparison compares the rows of blobs with the files in the store, as a merge of the rows with
// the listings of the 256 shards, all in order of names.
//
//	rows      018f..21   018f..9a   018f..b7   ...                a page of an index
//	shard 21  018f..21   0190..21   ...                           a page is one request of 1,000 entries
//	shard 9a  018f..9a   018f..9a (no row)   ...
//
// Entries on both sides with the same size match. A row whose file is not listed, or has another
// size, is checked with Stat before it is suspected. Files without a blob row are looked up in
// other tables, many at a time. So a stale listing or stale rows only cost extra queries:
// suspicions are checked again before they count.
//
// It holds one page per shard: 25 MB above 256,000 contents.
type comparison struct {
	p      *pass
	lists  map[string]*shardList
	strays []blob.Entry // without a row, not looked up yet
}

// shardList is the listing of one shard.
type shardList struct {
	shard string
	page  []blob.Entry // listed but not compared yet
	after string       // place of the last listed entry
	// more reports that the store has further entries.
	more bool
}

// maxLookup is the number of names per lookup statement.
const maxLookup = 250

// checkContents is the step "contents": it compares the rows of blobs with the listings of the
// store, from p.after on. While it runs, each save point first advances the listings. Defects are
// findings; an error means that the step is incomplete.
func (p *pass) checkContents(ctx context.Context) error {
	c := &comparison{p: p, lists: map[string]*shardList{}}
	after := p.after
	for _, shard := range blob.Shards() {
		c.lists[shard] = &shardList{shard: shard, more: true}
		if after != "" {
			c.lists[shard].after = blob.ShardPath(shard, after)
		}
	}
	p.beforeSave = c.advanceAll
	defer func() { p.beforeSave = nil }()
	err := c.run(ctx, after == "")
	if err != nil {
		return fmt.Errorf("compare contents: %w", err)
	}
	return nil
}

// run compares the rows after the save point with the listings, both in the order of names. Entries
// outside of the shards are listed only from the start. It looks up the queued strays at its end.
func (c *comparison) run(ctx context.Context, fromStart bool) error {
	if fromStart {
		err := c.p.Store.ListUnsharded(ctx, func(s blob.Entry) error { return c.addStray(ctx, s) })
		if err != nil {
			return err
		}
	}
	query := selectBlobRows + `WHERE file > ? ORDER BY file LIMIT ?`
	err := each(ctx, c.p, query, pageSize, scanBlobRow, func(b blobRow) any { return b.file }, func(b blobRow) error { return c.row(ctx, b) })
	for _, shard := range blob.Shards() {
		if err == nil {
			err = c.skipUnmatched(ctx, c.lists[shard], func(blob.Entry) bool { return true })
		}
	}
	return errors.Join(err, c.lookUp(ctx))
}

// row compares the row b with the listing, and if they differ with the file itself. A row that does
// not match is suspected; an unreadable file is a finding at once. It counts the row as checked.
func (c *comparison) row(ctx context.Context, b blobRow) error {
	c.p.report.Checked.Blobs++
	agrees, err := c.listed(ctx, b)
	if err != nil {
		return err
	}
	if !agrees {
		state, err := c.p.fileState(ctx, b)
		if content.Unreadable(err) {
			return unreadable(ctx, c.p, b, err, false)
		}
		if err != nil {
			return err
		}
		agrees = state == ""
	}
	if agrees && (b.damaged == 0 || c.p.scope.Deep) { // a deep check decides by reading
		return nil
	}
	return c.p.suspect(ctx, func(ctx context.Context) (*defect, error) { return c.p.lookBlob(ctx, b.id) })
}

// listed reports whether the listing has the file of a row with the right size, and consumes the
// listing up to it. Calls must be in the order of file names. It returns false for a file outside
// of the shards.
func (c *comparison) listed(ctx context.Context, b blobRow) (bool, error) {
	shard, ok := blob.ShardOf(b.file)
	if !ok {
		return false, nil
	}
	s, place, agrees := c.lists[shard], blob.ShardPath(shard, b.file), false
	err := c.skipUnmatched(ctx, s, func(e blob.Entry) bool { return e.Path < place })
	for err == nil {
		var e *blob.Entry
		if e, err = c.peek(ctx, s); err != nil || e == nil || e.Path != place || e.Name == "" {
			break
		}
		agrees = agrees || e.Size == b.size
		c.p.report.Checked.Files++
		s.page = s.page[1:] // during a migration of contents, a file may be at two places
	}
	return agrees, err
}

// skipUnmatched consumes the next entries of a shard as long as before accepts them, and queues
// them as strays, since no row has their names.
func (c *comparison) skipUnmatched(ctx context.Context, s *shardList, before func(blob.Entry) bool) error {
	for {
		e, err := c.peek(ctx, s)
		if err != nil || e == nil || !before(*e) {
			return err
		}
		s.page = s.page[1:]
		if err := c.addStray(ctx, *e); err != nil {
			return err
		}
	}
}

// peek returns the next entry of a shard without consuming it, or nil, without an error, at the
// end. It reads another page if needed.
func (c *comparison) peek(ctx context.Context, s *shardList) (*blob.Entry, error) {
	for len(s.page) == 0 {
		if !s.more {
			return nil, nil
		}
		page, more, err := c.p.Store.ListPage(ctx, s.shard, s.after, blob.MaxPage)
		if err != nil {
			return nil, err
		}
		if s.page, s.more = page, more && len(page) > 0; len(page) > 0 {
			s.after = page[len(page)-1].Path
		}
		if err := c.p.rest(ctx); err != nil {
			return nil, err
		}
	}
	return &s.page[0], nil
}

// advanceAll advances all shards to the current name of the rows, so that a save point can be
// written.
func (c *comparison) advanceAll(ctx context.Context, name string) error {
	for _, shard := range blob.Shards() {
		end := blob.ShardPath(shard, name)
		if err := c.skipUnmatched(ctx, c.lists[shard], func(e blob.Entry) bool { return e.Path <= end }); err != nil {
			return err
		}
	}
	return c.lookUp(ctx)
}

// addStray counts a listed file without a blob row and queues it. A full queue is looked up and
// emptied.
func (c *comparison) addStray(ctx context.Context, s blob.Entry) error {
	c.p.report.Checked.Files++
	if c.strays = append(c.strays, s); len(c.strays) < maxLookup {
		return nil
	}
	return c.lookUp(ctx)
}

// lookUp empties the queue and suspects its files that no row explains. The end of the comparison
// must call it once more.
func (c *comparison) lookUp(ctx context.Context) error {
	strays := c.strays
	c.strays = nil
	known, err := c.p.explainedOf(ctx, strays)
	for _, s := range strays {
		if err == nil && (s.Name == "" || !known[s.Name]) {
			err = c.p.suspect(ctx, func(ctx context.Context) (*defect, error) { return c.p.lookFile(ctx, s) })
		}
	}
	return err
}

// explainedOf returns, as true values by name, the files among strays that a row refers to: a blob,
// a released file, an open upload or a joined partial upload. Entries without a name are left out.
func (p *pass) explainedOf(ctx context.Context, strays []blob.Entry) (map[string]bool, error) {
	var names []any
	for _, s := range strays {
		if s.Name != "" {
			names = append(names, s.Name)
		}
	}
	known := make(map[string]bool, len(names))
	if len(names) == 0 {
		return known, nil
	}
	in := ` IN (` + sqldb.Placeholders(len(names)) + `)`
	var args []any
	for range 4 {
		args = append(args, names...)
	}
	rows, err := p.DB.Query(ctx, `SELECT file FROM blobs WHERE file`+in+` UNION ALL SELECT file FROM released WHERE file`+in+`
		UNION ALL SELECT id FROM uploads WHERE id`+in+` AND state IN ('active', 'parked', 'sealing')
		UNION ALL SELECT partial_id FROM upload_joins WHERE partial_id`+in, args...)
	found, err := sqldb.Scan(rows, err, func(name *string, scan func(...any) error) error { return scan(name) })
	if err != nil {
		return nil, fmt.Errorf("look for the rows of %d files: %w", len(names), err)
	}
	for _, name := range found {
		known[name] = true
	}
	return known, nil
}

// fileState says what is wrong with a blob's file according to Stat: missing, or of another size;
// "" if nothing. The error means that the store could not tell.
func (p *pass) fileState(ctx context.Context, b blobRow) (string, error) {
	switch size, err := p.Store.Stat(ctx, b.file); {
	case drive.IsKind(err, drive.NotFound):
		return "no such file", nil
	case err != nil:
		return "", fmt.Errorf("stat content of blob %s: %w", b.id, err)
	case size != b.size:
		return fmt.Sprintf("%d bytes", size), nil
	}
	return "", nil
}
