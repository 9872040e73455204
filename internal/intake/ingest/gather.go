package ingest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice/envelope"
)

// Intervals and limits of the gatherer.
const (
	gatherEvery  = 15 * time.Second // between two passes
	quietFor     = time.Minute      // a folder is quiet if nothing has arrived for so long: files that belong together are then complete
	gatherLatest = 10 * time.Minute // files of a folder that never becomes quiet are gathered at this age
	gatherMost   = 200              // files per bundle; each move takes about 1 ms
	gatherLooks  = 10_000           // folders of a source that a pass visits; the next pass continues
	gatherMade   = 50               // bundles of a source that a pass makes; the next pass continues
)

// gatherer makes bundles of files in the folder of a source that sends without manifests (K8). One
// transaction creates a folder /intake/SOURCE/ID, moves the files into it, and inserts the bundle's
// row. Each file is therefore in one bundle, and files that still lie where they arrived were not
// processed.
//
//	/intake/SOURCE/a.xml            /intake/SOURCE/ID-1/a.xml, a.pdf
//	/intake/SOURCE/a.pdf      ─►
//	/intake/SOURCE/2026/b.eml       /intake/SOURCE/ID-2/b.eml
//
// The gatherer skips folders whose name is a bundle id or that contain a meta.json.
type gatherer struct {
	*core
	arrivals *bundleRecorder
	seen     map[sourceFolder]round // the last round of each source
	looks    int                    // budget of folders per source and pass: gatherLooks, less in tests
	made     int                    // budget of bundles per source and pass: gatherMade, less in tests
	left     bool                   // the last pass left quiet files, because a source's budget of bundles was used up
}

// round is the progress of visiting all folders of a source, which may take several passes. The
// zero value means that no round has begun.
type round struct {
	seq     int64        // seq of the tree at the beginning of the round
	settled bool         // nothing was left waiting: only a change of the tree can add work
	at      []drive.Name // path, below the source's folder, where the next pass continues; nil: the round is complete
}

// isComplete reports whether visiting the source again would find nothing: the last round is
// complete, left no files, and the tree still has the same seq.
func (r round) isComplete(seq int64) bool { return r.settled && r.at == nil && r.seq == seq }

// sourceFolder is the folder of a source, as a map key.
type sourceFolder struct {
	account drive.AccountID
	source  string
}

// Gather makes one pass over all sources that accept files without a manifest, and makes bundles of
// the files of quiet folders, to which nothing was uploaded for a minute. For each source it visits
// gatherLooks folders and makes gatherMade bundles at most; later calls begin from the start again.
// It is safe to run concurrently on any instance.
func (in *Intake) Gather(ctx context.Context) error { return in.newGatherer().pass(ctx) }

// newGatherer returns a gatherer without the results of earlier rounds.
func (in *Intake) newGatherer() *gatherer {
	return &gatherer{core: in.core, arrivals: in.arrivals, seen: map[sourceFolder]round{}, looks: gatherLooks, made: gatherMade}
}

// RunGatherer makes passes like Gather until ctx is done, and then returns nil. Between two passes
// it pauses for gatherEvery or, after a long pass, longer. A pass continues where the one before
// stopped. It logs errors and tries again. It is enough for one instance to run it.
func (in *Intake) RunGatherer(ctx context.Context) error {
	g := in.newGatherer()
	var outage telemetry.Outage
	for ctx.Err() == nil {
		began := time.Now()
		outage.Record(ctx, in.log, "files without a manifest could not be gathered; that will be repeated", g.pass(ctx))
		pause := time.Since(began) // leaves the database to others
		if !g.left {
			pause *= 20
		}
		select {
		case <-time.After(max(gatherEvery, pause)):
		case <-ctx.Done():
		}
	}
	return nil
}

// plainSource is a source that accepts files without a manifest.
type plainSource struct {
	sourceFolder
	seq    int64        // seq of the account's tree
	folder drive.NodeID // the source's folder; zero: it does not exist
}

// pass gathers the files of all sources. An error of one source does not stop the pass, unless the
// database or a component is unavailable.
func (g *gatherer) pass(ctx context.Context) error {
	now, err := g.now(ctx)
	if err != nil {
		return err
	}
	seen := map[sourceFolder]round{}
	g.left = false
	var failed []error // errors of single sources, such as a full account
	for after := (sourceFolder{}); ; {
		page, err := g.sources(ctx, after)
		if err != nil {
			return err
		}
		for _, s := range page {
			after = s.sourceFolder
			if seen[s.sourceFolder] = g.seen[s.sourceFolder]; seen[s.sourceFolder].isComplete(s.seq) {
				continue
			}
			r, err := g.gather(ctx, s, now)
			if err != nil {
				failed = append(failed, fmt.Errorf("gather the files of source %q of account %s: %w", s.source, s.account, err))
			}
			if ctx.Err() != nil || drive.IsKind(err, drive.Unavailable) {
				return errors.Join(failed...)
			}
			seen[s.sourceFolder] = r
		}
		if len(page) < comparePage {
			g.seen = seen
			return errors.Join(failed...)
		}
	}
}

// sources returns the next page of sources without manifests, after the given one. An empty page
// means that there are no more.
func (g *gatherer) sources(ctx context.Context, after sourceFolder) ([]plainSource, error) {
	rows, err := g.opt.DB.Query(ctx, `SELECT s.account_id, s.name, COALESCE(t.seq, 0), f.id FROM (SELECT account_id, name FROM sources
		WHERE plain = 1 AND (account_id > ? OR (account_id = ? AND name > ?)) ORDER BY account_id, name LIMIT ?) AS s
		LEFT JOIN trees t ON t.account_id = s.account_id
		LEFT JOIN nodes i ON i.parent_id = t.root_id AND i.slot = ? AND i.type = 'folder'
		LEFT JOIN nodes f ON f.parent_id = i.id AND f.slot = s.name AND f.type = 'folder' ORDER BY s.account_id, s.name`,
		after.account.String(), after.account.String(), after.source, comparePage, bundle.Root)
	page, err := sqldb.Scan(rows, err, func(s *plainSource, scan func(...any) error) error {
		return scan(&s.account, &s.source, &s.seq, &s.folder)
	})
	if err != nil {
		return nil, fmt.Errorf("list sources without manifests: %w", err)
	}
	return page, nil
}

// gather continues the round through the folder of a source, or begins one, and makes bundles of
// the files of its quiet folders. It returns the new progress; after an error, the previous one.
func (g *gatherer) gather(ctx context.Context, s plainSource, now drive.Time) (round, error) {
	was := g.seen[s.sourceFolder]
	r := was
	if r.at == nil {
		r = round{seq: s.seq, settled: true}
	}
	if s.folder.IsZero() {
		return round{seq: s.seq, settled: true}, nil
	}
	l := &folderPass{gatherer: g, source: s, at: now, looks: g.looks, made: g.made, settled: r.settled}
	if err := l.folder(ctx, s.folder, nil, r.at); err != nil {
		return was, err
	}
	g.left = g.left || l.made <= 0
	return round{seq: r.seq, settled: l.settled, at: l.next}, nil
}

// folderPass is one pass through the folder of a source.
type folderPass struct {
	*gatherer
	source  plainSource
	at      drive.Time   // the current time
	looks   int          // folders that this pass may still visit
	made    int          // bundles that this pass may still make
	settled bool         // no files were left waiting
	next    []drive.Name // the first folder that was not visited; nil: all were
}

// folder gathers the files of a folder and of its subfolders, recursively (at most drive.MaxDepth
// levels). The argument from is the relative path to continue at; nil: all subfolders. Folders
// above that path are visited again.
func (l *folderPass) folder(ctx context.Context, id drive.NodeID, path, from []drive.Name) error {
	switch {
	case l.next != nil:
		return nil
	case l.looks <= 0 || l.made <= 0:
		l.next = slices.Clone(path)
		return nil
	}
	l.looks--
	if len(path) > 0 {
		_, meta, err := l.opt.Tree.Child(ctx, l.opt.DB, l.source.account, id, bundle.MetaName)
		if err != nil || meta {
			return err
		}
	}
	below, err := l.look(ctx, id)
	if err != nil {
		return err
	}
	for _, n := range below {
		var rest []drive.Name
		if len(from) > 0 && n.Name < from[0] {
			continue
		}
		if len(from) > 0 && n.Name == from[0] {
			rest = from[1:]
		}
		if err := l.folder(ctx, n.ID, append(slices.Clip(path), n.Name), rest); err != nil {
			return err
		}
	}
	return nil
}

// look makes bundles of the files in a folder, and returns its subfolders other than bundles. It
// reads the folder page by page and fails with the error of a query.
func (l *folderPass) look(ctx context.Context, id drive.NodeID) (below []tree.Node, err error) {
	for after := drive.Name(""); ; {
		page, err := l.opt.Tree.ChildrenAfter(ctx, l.opt.DB, id, after, comparePage)
		if err != nil {
			return nil, err
		}
		var files []tree.Node
		for _, n := range page {
			after = n.Name
			switch {
			case !n.IsFolder():
				if bundle.CheckName(string(n.Name)) == nil {
					files = append(files, n)
				}
			case !bundle.IsID(string(n.Name)):
				below = append(below, n)
			}
		}
		if err := l.files(ctx, files); err != nil {
			return nil, err
		}
		if len(page) < comparePage {
			return below, nil
		}
		if l.made <= 0 { // the rest of the folder is left to a later pass
			l.settled = false
			return below, nil
		}
	}
}

// files makes bundles of files of one folder, if the folder is quiet: none of them changed within
// quietFor, or the oldest waits since gatherLatest. The others, and those beyond the bundles that
// the pass may make, are left to a later pass.
func (l *folderPass) files(ctx context.Context, files []tree.Node) error {
	if len(files) == 0 {
		return nil
	}
	newest, oldest := files[0].Updated, files[0].Updated
	for _, f := range files {
		newest, oldest = max(newest, f.Updated), min(oldest, f.Updated)
	}
	if newest > l.at.Add(-quietFor) && oldest > l.at.Add(-gatherLatest) {
		l.settled = false
		return nil
	}
	for _, part := range splitByStem(files) {
		if l.made--; l.made < 0 {
			l.settled = false
			return nil
		}
		made, err := l.bundle(ctx, part)
		if err != nil {
			return err
		}
		l.settled = l.settled && made
	}
	return nil
}

// stemOf returns a name in lower case without its extension. Files with the same stem belong
// together.
func stemOf(name string) string { return strings.ToLower(strings.TrimSuffix(name, path.Ext(name))) }

// splitByStem sorts files by stem and splits them into parts of at most gatherMost. Files with the
// same stem stay in one part, unless there are more than gatherMost of them.
func splitByStem(files []tree.Node) (parts [][]tree.Node) {
	stem := func(n tree.Node) string { return stemOf(string(n.Name)) }
	slices.SortFunc(files, func(x, y tree.Node) int {
		return cmp.Or(strings.Compare(stem(x), stem(y)), strings.Compare(string(x.Name), string(y.Name)))
	})
	for len(files) > 0 {
		end := min(gatherMost, len(files))
		for end > 1 && end < len(files) && stem(files[end]) == stem(files[end-1]) {
			end--
		}
		parts, files = append(parts, files[:end]), files[end:]
	}
	return parts
}

// errNothing reports that no file is left to gather, or that the source no longer accepts files
// without a manifest.
var errNothing = errors.New("there is nothing to gather")

// bundle makes one bundle of the files that are still in the place where they were seen: in one
// transaction it creates the folder, moves the files and inserts the row. made is false, without an
// error, if there are none, or if the source no longer accepts files without a manifest.
func (l *folderPass) bundle(ctx context.Context, files []tree.Node) (made bool, err error) {
	now, err := l.now(ctx)
	if err != nil {
		return false, err
	}
	b := row{
		ID: drive.NewID[drive.BundleID](), Account: l.source.account, Source: l.source.source, SenderID: bundle.NewID(), Version: drive.NewID[drive.VersionID](),
	}
	err = l.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var plain bool
		err := tx.QueryRow(ctx, "SELECT plain FROM sources WHERE account_id = ? AND name = ?", b.Account, b.Source).Scan(&plain)
		if drive.IsKind(err, drive.NotFound) || err == nil && !plain {
			return errNothing
		}
		if err != nil {
			return err
		}
		// From here on the transaction holds the lock of the tree, so what it reads stays
		// valid.
		folder, err := l.opt.Tree.CreateFolder(ctx, tx, b.Account, tree.Place{Parent: l.source.folder, Name: drive.Name(b.SenderID)})
		if err != nil {
			return err
		}
		if err := l.move(ctx, tx, folder, files); err != nil {
			return err
		}
		b.Folder, b.Meta = folder.ID, folder.ID
		if err := l.arrivals.insert(ctx, tx, b, now); err != nil {
			return err
		}
		return l.arrivals.announce(ctx, tx, b)
	})
	if errors.Is(err, errNothing) || drive.IsKind(err, drive.ParentGone, drive.NotFound, drive.WrongState) { // the folder was deleted meanwhile
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.log.InfoContext(ctx, "files without a manifest are a bundle", "bundle", b.ID, "source", b.Source, "files", len(files))
	return true, nil
}

// move moves files into a bundle's folder, except those that were moved or deleted since they were
// listed. errNothing: no file was moved.
func (l *folderPass) move(ctx context.Context, tx *sqldb.Tx, folder tree.Node, files []tree.Node) error {
	moved := 0
	for _, f := range files {
		n, err := l.opt.Tree.Find(ctx, tx, folder.Account, f.ID)
		if drive.IsKind(err, drive.NotFound) || err == nil && (n.Parent != f.Parent || n.Trashed != 0) {
			continue
		}
		if err == nil {
			_, err = l.opt.Tree.Edit(ctx, tx, folder.Account, f.ID, tree.Edit{Parent: folder.ID})
		}
		if err != nil {
			return fmt.Errorf("move file %s: %w", f.ID, err)
		}
		moved++
	}
	if moved == 0 {
		return errNothing
	}
	return nil
}

// gathered reports whether the gatherer made this bundle of files without a manifest.
func (b *row) gathered() bool { return b.Meta == b.Folder }

// gather returns the files in the folder of a gathered bundle as its members, with the number of
// documents in each, which nobody has declared. Every file that is not the picture of another one
// counts as at least one document, so that an unreadable file becomes a visible rejection. A folder
// without files fails with *refusal.
func (in *checker) gather(ctx context.Context, b *row) ([]member, error) {
	there, err := in.folderNodes(ctx, b)
	if err != nil {
		return nil, err
	}
	var members []member
	for _, n := range there {
		if n.IsFolder() || bundle.CheckName(string(n.Name)) != nil {
			continue
		}
		members = append(members, member{Name: string(n.Name), Size: n.Size, Type: n.Mime, Node: n.ID, Blob: n.Blob, State: "pending"})
	}
	if len(members) == 0 {
		return nil, &refusal{reasonGone, "its files are gone"}
	}
	slices.SortFunc(members, func(x, y member) int { return strings.Compare(x.Name, y.Name) })
	kinds := make([]envelope.Kind, len(members))
	for i := range members {
		members[i].N = int64(i) + 1
		if kinds[i], err = in.readMember(ctx, &members[i]); err != nil {
			return nil, fmt.Errorf("read member %q: %w", members[i].Name, err)
		}
	}
	return members, in.countRest(ctx, members, kinds)
}

// readMember reads a member and sets its SHA-256 and the number of documents that it holds outside
// of envelopes such as PDF, zip or e-mail. It returns the kind of envelope. If the content is
// missing or damaged, it sets m.wrong instead and returns no error.
func (in *checker) readMember(ctx context.Context, m *member) (envelope.Kind, error) {
	found, err := in.opt.Content.FindMany(ctx, in.opt.DB, m.Blob)
	if err != nil {
		return 0, err
	}
	b, stored := found[m.Blob]
	switch {
	case !stored: // the file was replaced between the two queries
		m.wrong = reasonMissing
		return 0, nil
	case b.Damaged != 0:
		m.wrong, m.Documents = reasonDamaged, 1
		return 0, nil
	}
	counter, sum := &envelope.Counter{Name: m.Name}, sha256.New()
	if err := in.copyContent(ctx, b, io.MultiWriter(counter, sum)); err != nil {
		return 0, err
	}
	m.SHA256, m.Documents = hex.EncodeToString(sum.Sum(nil)), int64(counter.Documents())
	return counter.Kind(), nil
}

// copyContent copies the bytes of a content to a writer. After an error the writer may have
// received a part.
func (in *checker) copyContent(ctx context.Context, b content.Blob, to io.Writer) (err error) {
	object, err := in.openFile(ctx, b.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	_, err = io.Copy(to, bounded(ctx, object))
	return err
}

// countRest sets Documents of those members that readMember found no documents in, in place. It
// looks into PDFs, archives and e-mails, unless they are the pictures of other members, that is,
// have the same name up to the extension. If another member holds several documents, a PDF without
// an invoice counts as the picture of one of them. It fails with an error of the store.
func (in *checker) countRest(ctx context.Context, members []member, kinds []envelope.Kind) error {
	documents, lists := map[string]bool{}, false
	for _, m := range members {
		if m.Documents > 0 {
			documents[stemOf(m.Name)] = true
		}
		lists = lists || m.Documents > 1
	}
	for i := range members {
		m := &members[i]
		if m.wrong != "" || m.Documents > 0 || documents[stemOf(m.Name)] {
			continue
		}
		if kinds[i] != envelope.None {
			n, err := in.countIn(ctx, *m, kinds[i])
			if err != nil {
				return err
			}
			m.Documents = n
		}
		if m.Documents == 0 && !(lists && kinds[i] == envelope.PDF) {
			m.Documents = 1
		}
	}
	return nil
}

// countIn counts the documents in an envelope, checking the content first. It fails with an error
// of the store or the cause of ctx; a damaged envelope is no error of it.
func (in *checker) countIn(ctx context.Context, m member, kind envelope.Kind) (_ int64, err error) {
	var object blob.Object
	if object, err = in.openSound(ctx, m.Blob); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	n, err := envelope.Count(kind, timedReaderAt{func() error { return context.Cause(ctx) }, object}, int64(object.Size()))
	return int64(n), err
}
