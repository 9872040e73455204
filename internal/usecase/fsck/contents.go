package fsck

import (
	"context"
	"errors"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// comparison is the walk through what rows and store say of contents, both in the order of names: a
// merge of the rows with the lists of the 256 shards.
//
//	rows      018f..21   018f..9a   018f..b7   ...                a page of an index
//	shard 21  018f..21   0190..21   ...                           a page is one request of 1,000 entries
//	shard 9a  018f..9a   018f..9a (no row)   ...
//
// What is at both with the same size agrees and costs nothing more. A row without a file, or with
// one of another size, is asked for by itself (Stat) before it is suspected; files without a row
// are looked up in what else explains them, many at a time. So a list that is older than the rows,
// or rows that are older than the list, cost a question and no more: what counts is the second
// look.
//
// It holds a page of each shard: 25 MB where there are more than 256,000 contents.
type comparison struct {
	p       *pass
	shelves map[string]*shelf
	strays  []blob.Stray // without a row, not looked up yet
}

// shelf is the list of a shard.
type shelf struct {
	shard string
	page  []blob.Stray // listed and not compared yet
	after string       // place of the last one that was listed
	more  bool
}

// maxLookup is how many names one statement looks up.
const maxLookup = 250

// checkContents compares the rows of blobs with what is at the store.
func (p *pass) checkContents(ctx context.Context) error {
	c := &comparison{p: p, shelves: map[string]*shelf{}}
	after := p.after
	for _, shard := range blob.Shards() {
		c.shelves[shard] = &shelf{shard: shard, more: true}
		if after != "" {
			c.shelves[shard].after = blob.PlaceIn(shard, after)
		}
	}
	p.settle = c.catchUp
	defer func() { p.settle = nil }()
	err := c.run(ctx, after == "")
	if err != nil {
		return fmt.Errorf("compare contents: %w", err)
	}
	return nil
}

func (c *comparison) run(ctx context.Context, fromStart bool) error {
	if fromStart {
		err := c.p.Store.ListOdd(ctx, func(s blob.Stray) error { return c.unknown(ctx, s) })
		if err != nil {
			return err
		}
	}
	query := selectStored + `WHERE file > ? ORDER BY file LIMIT ?`
	err := each(ctx, c.p, query, pageSize, scanStored, func(b stored) any { return b.file }, func(b stored) error { return c.row(ctx, b) })
	for _, shard := range blob.Shards() {
		if err == nil {
			err = c.upTo(ctx, c.shelves[shard], func(blob.Stray) bool { return true })
		}
	}
	return errors.Join(err, c.lookUp(ctx))
}

// row compares one row.
func (c *comparison) row(ctx context.Context, b stored) error {
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
	if agrees && (b.damaged == 0 || c.p.scope.Deep) { // deep decides by reading
		return nil
	}
	return c.p.suspect(ctx, func(ctx context.Context) (*defect, error) { return c.p.lookBlob(ctx, b.id) })
}

// listed reports whether the store lists the file of a row with the size that it should have.
func (c *comparison) listed(ctx context.Context, b stored) (bool, error) {
	shard, ok := blob.ShardOf(b.file)
	if !ok {
		return false, nil
	}
	s, place, agrees := c.shelves[shard], blob.PlaceIn(shard, b.file), false
	err := c.upTo(ctx, s, func(e blob.Stray) bool { return e.Place < place })
	for err == nil {
		var e *blob.Stray
		if e, err = c.first(ctx, s); err != nil || e == nil || e.Place != place || e.Name == "" {
			break
		}
		agrees = agrees || e.Size == b.size
		c.p.report.Checked.Files++
		s.page = s.page[1:] // while contents move, it may be at two places
	}
	return agrees, err
}

// upTo takes what is before from a shelf: no row has it.
func (c *comparison) upTo(ctx context.Context, s *shelf, before func(blob.Stray) bool) error {
	for {
		e, err := c.first(ctx, s)
		if err != nil || e == nil || !before(*e) {
			return err
		}
		s.page = s.page[1:]
		if err := c.unknown(ctx, *e); err != nil {
			return err
		}
	}
}

// first returns the next entry of a shelf; nil: there is none any more.
func (c *comparison) first(ctx context.Context, s *shelf) (*blob.Stray, error) {
	for len(s.page) == 0 {
		if !s.more {
			return nil, nil
		}
		page, more, err := c.p.Store.ListPage(ctx, s.shard, s.after, blob.MaxPage)
		if err != nil {
			return nil, err
		}
		if s.page, s.more = page, more && len(page) > 0; len(page) > 0 {
			s.after = page[len(page)-1].Place
		}
		if err := c.p.rest(ctx); err != nil {
			return nil, err
		}
	}
	return &s.page[0], nil
}

// catchUp brings all shelves to the name that the rows have come to, so that the pass can go on
// from there.
func (c *comparison) catchUp(ctx context.Context, name string) error {
	for _, shard := range blob.Shards() {
		end := blob.PlaceIn(shard, name)
		if err := c.upTo(ctx, c.shelves[shard], func(e blob.Stray) bool { return e.Place <= end }); err != nil {
			return err
		}
	}
	return c.lookUp(ctx)
}

// unknown notes something at the store that no row of a blob has told of.
func (c *comparison) unknown(ctx context.Context, s blob.Stray) error {
	c.p.report.Checked.Files++
	if c.strays = append(c.strays, s); len(c.strays) < maxLookup {
		return nil
	}
	return c.lookUp(ctx)
}

// lookUp suspects those strays that nothing explains.
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

// explainedOf is explained for many, without those that nothing explains.
func (p *pass) explainedOf(ctx context.Context, strays []blob.Stray) (map[string]bool, error) {
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
	in := ` IN (` + sqldb.Marks(len(names)) + `)`
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

// fileState says in words what is wrong with a blob's file; empty: nothing that its length tells.
func (p *pass) fileState(ctx context.Context, b stored) (string, error) {
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
