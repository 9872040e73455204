package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/bundle"
)

// Stray is a file or folder below /intake that is not part of a bundle and is therefore not
// processed.
type Stray struct {
	Node    drive.NodeID `json:"node"`
	Path    string       `json:"path"`
	Reason  StrayReason  `json:"reason" enum:"loose-file,no-manifest,folder-name,too-deep,source-name" doc:"loose-file: outside of a bundle's folder; no-manifest: a folder without meta.json; folder-name: it has meta.json, and its name is no UUIDv7; too-deep: it does not lie at /intake/SOURCE/ID; source-name: no source can have this name"`
	Files   int64        `json:"files" doc:"number of files directly in it, counted up to 1,000"`
	Changed drive.Time   `json:"changed_at" doc:"when it, or the latest of these files, was changed"`
}

// StrayReason tells why a node is a stray.
type StrayReason string

// Reasons, and limits of a search.
const (
	StrayFile  StrayReason = "loose-file"
	NoManifest StrayReason = "no-manifest"
	FolderName StrayReason = "folder-name"
	TooDeep    StrayReason = "too-deep"
	SourceName StrayReason = "source-name"
	strayLooks             = 1000 // subfolders visited per folder of a source
	strayPages             = 20   // pages of comparePage nodes that one call reads, which takes some 100 ms
)

// Strays returns up to limit strays below /intake of the caller's account, in the order of names.
// The argument after is the cursor that the previous call returned as next; empty: from the first.
// An empty next means that the list is complete. A page may be short or empty although there is a
// next one, because bundles are skipped.
func (in *Intake) Strays(ctx context.Context, who drive.Who, after string, limit int) (found []Stray, next string, err error) {
	return in.catalog.strays(ctx, who, after, limit)
}

// search is one call's traversal of /intake.
type search struct {
	*catalog
	account drive.AccountID
	plain   map[string]bool // names of sources that accept files without a manifest
	limit   int
	pages   int // pages that may still be read
	found   []Stray
}

// strayPlace is the cursor of a search: continue after node source of /intake or, if child is set,
// after node child of the source's folder.
type strayPlace struct{ source, child string }

// String returns the cursor as text, "SOURCE" or "SOURCE/CHILD".
func (p strayPlace) String() string {
	if p.child == "" {
		return p.source
	}
	return p.source + "/" + p.child
}

// strays implements Intake.Strays. A call reads at most strayPages pages of folders, so its page
// may be short. Without a folder /intake it returns nothing.
func (in *catalog) strays(ctx context.Context, who drive.Who, after string, limit int) ([]Stray, string, error) {
	root, err := in.opt.Tree.Resolve(ctx, in.opt.DB.For(who.Account), who.Account, drive.Path{bundle.Root})
	if drive.IsKind(err, drive.NotFound) || err == nil && !root.IsFolder() {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	s := &search{catalog: in, account: who.Account, limit: limit, pages: strayPages}
	if s.plain, err = in.plainSources(ctx, who.Account); err != nil {
		return nil, "", err
	}
	var at strayPlace
	at.source, at.child, _ = strings.Cut(after, "/")
	next, err := s.run(ctx, root.ID, at)
	if err != nil {
		return nil, "", fmt.Errorf("look for what is no bundle: %w", err)
	}
	return s.found, next.String(), nil
}

// plainSources returns the names of the sources that accept files without a manifest. It fails with
// the error of the query.
func (in *catalog) plainSources(ctx context.Context, account drive.AccountID) (map[string]bool, error) {
	rows, err := in.opt.DB.For(account).Query(ctx, "SELECT name FROM sources WHERE account_id = ? AND plain = 1", account)
	names, err := sqldb.Scan(rows, err, func(name *string, scan func(...any) error) error { return scan(name) })
	plain := map[string]bool{}
	for _, name := range names {
		plain[name] = true
	}
	return plain, err
}

// full reports whether the search must stop: it has found limit strays, or has read as many pages
// as it may.
func (s *search) full() bool { return len(s.found) >= s.limit || s.pages <= 0 }

// run searches from a cursor on and returns the cursor to continue at; zero: the search is
// complete. It adds to s.found and fails with the error of a query.
func (s *search) run(ctx context.Context, root drive.NodeID, at strayPlace) (strayPlace, error) {
	if at.child != "" {
		source, there, err := s.opt.Tree.Child(ctx, s.opt.DB.For(s.account), s.account, root, drive.Name(at.source))
		if err != nil {
			return strayPlace{}, err
		}
		if there && source.IsFolder() {
			if next, err := s.source(ctx, source, at.child); err != nil || next != "" {
				return strayPlace{at.source, next}, err
			}
		}
		at.child = ""
	}
	for {
		s.pages--
		nodes, err := s.opt.Tree.ChildrenAfter(ctx, s.opt.DB.For(s.account), root, drive.Name(at.source), comparePage)
		if err != nil {
			return strayPlace{}, err
		}
		for _, n := range nodes {
			if s.full() {
				return at, nil
			}
			next, err := s.visitNode(ctx, n)
			if err != nil || next != "" {
				return strayPlace{string(n.Name), next}, err
			}
			at = strayPlace{source: string(n.Name)}
		}
		if len(nodes) < comparePage {
			return strayPlace{}, nil
		}
	}
}

// visitNode handles a node in /intake. A non-empty next is the child of the source to continue
// after. It fails with the error of a query.
func (s *search) visitNode(ctx context.Context, n tree.Node) (next string, err error) {
	path := drive.Path{bundle.Root, n.Name}
	switch {
	case !n.IsFolder():
		s.add(path, n, StrayFile, 1, n.Updated)
		return "", nil
	case !bundle.IsSource(string(n.Name)):
		s.add(path, n, SourceName, 0, n.Updated)
		return "", nil
	}
	return s.source(ctx, n, "")
}

// add appends a stray to found; changed is when it last changed.
func (s *search) add(path drive.Path, n tree.Node, reason StrayReason, files int64, changed drive.Time) {
	s.found = append(s.found, Stray{n.ID, path.String(), reason, files, changed})
}

// sourceNode is a node in a source's folder.
type sourceNode struct {
	tree.Node
	known drive.BundleID // id of the bundle's row; zero: there is none
	meta  drive.NodeID   // node of its meta.json; zero: there is none
}

// source searches the folder of a source, after the child with the name after; "" begins with the
// first. A non-empty next is the name to continue after, because the search must stop. It fails
// with the error of a query.
func (s *search) source(ctx context.Context, folder tree.Node, after string) (next string, err error) {
	for {
		s.pages--
		page, err := s.nodesIn(ctx, folder.ID, after)
		if err != nil {
			return "", err
		}
		for _, n := range page {
			if s.full() && after != "" {
				return after, nil
			}
			if err := s.child(ctx, folder, n); err != nil {
				return "", err
			}
			after = string(n.Name)
		}
		if len(page) < comparePage {
			return "", nil
		}
	}
}

// nodesIn returns the next page of nodes in a source's folder, after a name. An empty page means
// that there are no more.
func (s *search) nodesIn(ctx context.Context, folder drive.NodeID, after string) ([]sourceNode, error) {
	rows, err := s.opt.DB.For(s.account).Query(ctx, `SELECT n.id, n.slot, n.type, n.updated_at, x.id, m.id
		FROM (SELECT id, slot, type, updated_at FROM nodes WHERE parent_id = ? AND slot > ? AND trashed_at = 0 ORDER BY slot LIMIT ?) AS n
		LEFT JOIN bundles x ON x.folder_id = n.id
		LEFT JOIN nodes m ON m.parent_id = n.id AND m.slot = ? AND m.type = 'file' ORDER BY n.slot`, folder, after, comparePage, bundle.MetaName)
	return sqldb.Scan(rows, err, func(l *sourceNode, scan func(...any) error) error {
		return scan(&l.ID, &l.Name, &l.Type, &l.Updated, &l.known, &l.meta)
	})
}

// child examines a node in the folder of a source and adds it to s.found if it is a stray. Of a
// folder that is not a bundle it examines the content, up to strayLooks folders. It fails with the
// error of a query.
func (s *search) child(ctx context.Context, source tree.Node, n sourceNode) error {
	path := drive.Path{bundle.Root, source.Name, n.Name}
	plain := s.plain[string(source.Name)]
	_, _, named := bundle.Find(append(path[:3:3], bundle.MetaName))
	switch {
	case !n.known.IsZero():
		return nil
	case !n.IsFolder():
		if !plain || bundle.CheckName(string(n.Name)) != nil {
			s.add(path, n.Node, StrayFile, 1, n.Updated)
		}
		return nil
	case named && !n.meta.IsZero(): // a bundle whose row is not written yet
		return nil
	}
	looks := strayLooks
	return s.folder(ctx, path, n.Node, plain && !named, &looks)
}

// folder adds the strays among a folder and its subfolders to s.found. plain says that files in
// this folder are no strays, because the gatherer makes bundles of them. Each visited folder
// decrements looks; at zero the search of subfolders ends. It fails with the error of a query.
func (s *search) folder(ctx context.Context, path drive.Path, n tree.Node, plain bool, looks *int) error {
	if *looks--; *looks < 0 {
		return nil
	}
	nodes, err := s.opt.Tree.ChildrenAfter(ctx, s.opt.DB.For(s.account), n.ID, "", comparePage)
	if err != nil {
		return err
	}
	files, changed, meta := int64(0), n.Updated, false
	for _, c := range nodes {
		if c.IsFolder() {
			continue
		}
		files, changed = files+1, max(changed, c.Updated)
		meta = meta || c.Name == bundle.MetaName
	}
	switch deep := len(path) > 3; {
	case meta && deep:
		s.add(path, n, TooDeep, files, changed)
	case meta:
		s.add(path, n, FolderName, files, changed)
	case files > 0 && !plain:
		s.add(path, n, NoManifest, files, changed)
	}
	for _, c := range nodes {
		if !c.IsFolder() {
			continue
		}
		if err := s.folder(ctx, append(slices.Clip(path), c.Name), c, plain, looks); err != nil {
			return err
		}
	}
	return nil
}
