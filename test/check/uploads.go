package main

import (
	"database/sql"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// uploadRow is a row of uploads.
type uploadRow struct {
	id, account, name, fingerprint, state, reason string
	size                                          sql.NullInt64
	partSize, gen                                 int64
	reserved, held                                int64
	node                                          sql.NullString
	created, active, ended                        int64 // Unix ms

	parts map[int]arrived // received parts in its journal, while it is open
}

// open reports whether the upload still has a journal and bytes.
func (r *uploadRow) open() bool {
	return r.state == "active" || r.state == "parked" || r.state == "sealing"
}

// staging returns the directory of an upload, which is below the UTC date of its creation.
func (c *checker) staging(r *uploadRow) string {
	day := time.UnixMilli(r.created).UTC().Format("2006/01/02")
	return filepath.Join(c.blobs, "staging", filepath.FromSlash(day), r.id)
}

// loadUploads reads all rows of uploads into c.rows.
func (c *checker) loadUploads() error {
	c.rows = map[string]*uploadRow{}
	return c.db.each(func(scan func(...any) error) error {
		r := &uploadRow{}
		err := scan(&r.id, &r.account, &r.name, &r.fingerprint, &r.state, &r.reason, &r.size, &r.partSize, &r.gen, &r.reserved, &r.held,
			&r.node, &r.created, &r.active, &r.ended)
		c.rows[r.id] = r
		c.uploads++
		return err
	}, `SELECT id, account_id, name, fingerprint, state, reason, size, part_size, gen, reserved, held, node_id, created_at, active_at, ended_at FROM uploads`)
}

// uploadRows checks that every row is in a valid state with valid amounts (Q2, Q3, P4), and that
// its bytes exist (P1).
func (c *checker) uploadRows() error {
	for _, r := range c.rows {
		c.amounts(r)
		c.ending(r)
		if err := c.bytesOf(r); err != nil {
			return err
		}
	}
	return nil
}

// amounts checks reserved and held against the state.
func (c *checker) amounts(r *uploadRow) {
	var wrong bool
	switch r.state {
	case "active":
		wrong = r.held != 0 || r.reserved < 0 || r.size.Valid && r.reserved != r.size.Int64
	case "sealing":
		wrong = r.held != 0 || !r.size.Valid || r.reserved < r.size.Int64
	case "parked", "reclaiming":
		wrong = r.reserved != 0 || r.held < 0 || r.size.Valid && r.held > r.size.Int64
	case "done", "gone":
		wrong = r.reserved != 0 || r.held != 0
	default:
		c.found("P4", "upload %s is in state %q", r.id, r.state)
	}
	if wrong {
		c.found("Q2", "upload %s of %d bytes is %s with %d reserved and %d held", r.id, r.size.Int64, r.state, r.reserved, r.held)
	}
}

// ending checks the node, the reason and the end time against the state.
func (c *checker) ending(r *uploadRow) {
	done, gone, leaving := r.state == "done", r.state == "gone", r.state == "reclaiming"
	if done != r.node.Valid || (gone || leaving) != (r.reason != "") || (done || gone) != (r.ended > 0) {
		c.found("P4", "upload %s is %s with node %q, reason %q, ended at %d", r.id, r.state, r.node.String, r.reason, r.ended)
	}
	if r.reason == "lost" {
		c.found("P1", "the bytes of upload %s were lost", r.id)
	}
}

// bytesOf reads the journal and the bytes of an open upload and checks them.
func (c *checker) bytesOf(r *uploadRow) error {
	if !r.open() {
		return nil
	}
	dir := c.staging(r)
	journal, bytes := takingOver(dir)
	b, err := os.ReadFile(filepath.Join(dir, journal))
	if errors.Is(err, fs.ErrNotExist) {
		c.found("P1", "upload %s is %s and has no journal", r.id, r.state)
		return nil
	}
	if err != nil {
		return err
	}
	var torn int
	if r.parts, torn, err = readJournal(b); err != nil {
		c.found("P1", "upload %s: %v", r.id, err)
		return nil
	}
	if torn > 0 {
		c.left("P2", "the journal of upload %s ends with %d bytes of a frame", r.id, torn)
	}
	data, err := os.Open(filepath.Join(dir, bytes))
	if errors.Is(err, fs.ErrNotExist) && r.state == "sealing" {
		data, err = os.Open(c.place(r.id))
	}
	if errors.Is(err, fs.ErrNotExist) {
		c.found("P1", "upload %s is %s and its bytes are nowhere", r.id, r.state)
		return nil
	}
	if err != nil {
		return err
	}
	defer data.Close()
	return c.partsOf(r, data)
}

// takingOver returns the names of the journal and the data file in a staging. An upload that adopts
// the bytes of another one has data.adopt from the start of the adoption, and journal.adopt until
// that is renamed to journal.
func takingOver(dir string) (journal, data string) {
	if _, err := os.Lstat(filepath.Join(dir, "data.adopt")); err != nil {
		return "journal", "data"
	}
	if _, err := os.Lstat(filepath.Join(dir, "journal.adopt")); err != nil {
		return "journal", "data.adopt"
	}
	return "journal.adopt", "data.adopt"
}

// partsOf compares the bytes of each part with its CRC-32 (P2), and the held amount with their sum
// (Q3).
func (c *checker) partsOf(r *uploadRow, data io.ReaderAt) error {
	var sum int64
	for n, p := range r.parts {
		sum += p.size
		h := crc32.NewIEEE()
		got, err := io.Copy(h, io.NewSectionReader(data, int64(n)*r.partSize, p.size))
		if err != nil {
			return err
		}
		if got != p.size || h.Sum32() != p.crc {
			c.found("P2", "upload %s: the bytes of part %d are not those that its journal names", r.id, n)
		}
	}
	if r.state == "parked" && r.held < sum {
		c.found("Q3", "upload %s is parked with %d bytes in parts and %d held", r.id, sum, r.held)
	}
	return nil
}

// stagings reports staging directories without an open upload.
func (c *checker) stagings() error {
	seen := map[string]bool{}
	err := files(filepath.Join(c.blobs, "staging"), func(path string) {
		dir := filepath.Dir(path)
		id := filepath.Base(dir)
		r := c.rows[id]
		switch {
		case strings.Count(id, "-") != 4:
			c.found("B3", "nothing explains %s", path)
		case r != nil && dir != c.staging(r):
			c.found("B3", "%s is not the directory of its upload", dir)
		case r != nil && (r.open() || r.state == "reclaiming"), seen[id]:
		case r != nil:
			c.left("B3", "the staging of upload %s, which is %s, is still there", id, r.state)
		default:
			c.left("B3", "staging %s has no row", id)
		}
		seen[id] = true
	})
	return err
}
