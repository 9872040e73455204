package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/bundle"
)

// Reasons why a bundle waits or was rejected.
const (
	reasonGone    = "gone"            // the folder, its files or its meta.json were deleted
	reasonPlace   = "wrong-place"     // the manifest names another source or bundle id
	reasonMissing = "members-missing" // a member does not exist
	reasonDiffer  = "members-differ"  // size or SHA-256 of a member differs from the manifest
	reasonDamaged = "damaged"         // a member's bytes are lost
	reasonFailed  = "failed"
)

// checker compares the files of a bundle with its manifest.
type checker struct{ *core }

// check compares the members with the manifest and stores them in bundle_members; it sets fields of
// b. It first deletes the rows of earlier attempts. If members are missing or different, the error
// is *waiting before the bundle's deadline and *refusal after it. lease.ErrFenced: this worker has
// lost the bundle.
func (in *checker) check(ctx context.Context, b *row) error {
	if err := in.dropRecorded(ctx, b); err != nil {
		return err
	}
	members, err := in.members(ctx, b)
	if err == nil {
		err = in.complete(ctx, b, members)
	}
	if err != nil {
		return err
	}
	in.halt("compared")
	return in.saveMembers(ctx, b, members)
}

// members returns the members that the manifest declares, compared with the files of the folder.
// For a bundle without a manifest it returns the files of the folder. It fails with *refusal or
// *waiting for a fault of the bundle, and otherwise with an error that makes the bundle retried.
func (in *checker) members(ctx context.Context, b *row) ([]member, error) {
	if b.gathered() {
		return in.gather(ctx, b)
	}
	m, err := in.manifest(ctx, b)
	if err != nil {
		return nil, err
	}
	members, err := in.locate(ctx, b, m)
	if err == nil {
		err = in.compare(ctx, members)
	}
	return members, err
}

// member is a file of a bundle, as stored in bundle_members.
type member struct {
	N         int64
	Name      string
	Size      drive.ByteSize
	Type      string
	SHA256    string
	Documents int64
	Node      drive.NodeID
	Blob      drive.BlobID
	State     string
	Reason    string

	wrong string // reason how the file differs from the manifest; empty: it does not differ
}

// memberColumns lists the columns of bundle_members in the order of scanMember.
const memberColumns = "n, name, size, type, sha256, documents, node_id, blob_id, state, reason"

// scanMember scans a row of memberColumns into m. It fails with the error of scan.
func scanMember(m *member, scan func(...any) error) error {
	return scan(&m.N, &m.Name, &m.Size, &m.Type, &m.SHA256, &m.Documents, &m.Node, &m.Blob, &m.State, &m.Reason)
}

// manifest reads and decodes the version of meta.json that sealed the bundle, even if the file has
// changed since. *refusal: the version is gone, the manifest is invalid or names another bundle.
// *waiting: its content is damaged.
func (in *checker) manifest(ctx context.Context, b *row) (*bundle.Manifest, error) {
	v, err := in.opt.Tree.FindVersion(ctx, in.opt.DB, b.Meta, b.Version)
	if drive.IsKind(err, drive.NotFound) {
		return nil, &refusal{reasonGone, "its meta.json is gone"}
	}
	if err != nil {
		return nil, err
	}
	object, err := in.openSound(ctx, v.Blob)
	if errors.Is(err, errDamaged) {
		return nil, in.late(ctx, b, reasonDamaged, string(bundle.MetaName))
	}
	if err != nil {
		return nil, err
	}
	defer object.Close() //nolint:errcheck // it was only read
	m, err := bundle.Decode(io.NewSectionReader(object, 0, int64(object.Size())))
	if bad, ok := errors.AsType[*bundle.Error](err); ok {
		return nil, &refusal{"manifest-" + string(bad.Reason), bad.Error()}
	}
	if err != nil {
		return nil, err
	}
	if m.Source != b.Source || m.ID != b.SenderID {
		return nil, &refusal{reasonPlace, fmt.Sprintf("the manifest is of bundle %s of source %q", m.ID, m.Source)}
	}
	return m, nil
}

// open opens the content of a blob, even if it is marked as damaged; see openSound. The caller must
// close it. NotFound: the blob or its stored file does not exist; such an error is retried and
// finally rejects the bundle.
func (in *core) open(ctx context.Context, id drive.BlobID) (blob.Object, error) {
	b, err := in.opt.Content.Find(ctx, in.opt.DB, id)
	if err != nil {
		return nil, err
	}
	return in.openFile(ctx, b.File)
}

// errDamaged reports that the content is marked as damaged: its bytes are lost.
var errDamaged = errors.New("the content was found damaged")

// openSound opens the content of a blob. The caller must close it. If the content is marked as
// damaged, the error is NotFound and wraps errDamaged; the store is not asked.
func (in *core) openSound(ctx context.Context, id drive.BlobID) (blob.Object, error) {
	b, err := in.opt.Content.Find(ctx, in.opt.DB, id)
	if err != nil {
		return nil, err
	}
	if b.Damaged != 0 {
		return nil, drive.Wrap(errDamaged, drive.NotFound)
	}
	return in.openFile(ctx, b.File)
}

// openFile opens a file of the store. NotFound stays NotFound. Other store errors, such as a disk
// error, become Unavailable, which does not count as a try of the bundle.
func (in *core) openFile(ctx context.Context, file string) (blob.Object, error) {
	object, err := in.opt.Store.Open(ctx, file)
	if err != nil {
		return nil, ofStore(err)
	}
	return stored{object}, nil
}

// stored maps the errors of reading an object with ofStore.
type stored struct{ blob.Object }

// ReadAt reads the content. Its errors are marked as failures of the store, so that the bundle is
// retried and not rejected.
func (s stored) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.Object.ReadAt(p, off)
	return n, ofStore(err)
}

// ofStore turns an error of kind Internal into Unavailable, so that the bundle is retried. It keeps
// io.EOF and errors of other kinds.
func ofStore(err error) error {
	if drive.IsKind(err, drive.Internal) && !errors.Is(err, io.EOF) {
		return drive.Wrap(err, drive.Unavailable)
	}
	return err
}

// folderPage is the maximum number of rows that one statement reads.
const folderPage = 1000

// folderNodes returns the nodes in the bundle's folder by name. It fails with *refusal if the
// folder is gone or in the trash.
func (in *checker) folderNodes(ctx context.Context, b *row) (map[drive.Name]tree.Node, error) {
	_, live, err := in.opt.Tree.PathOf(ctx, in.opt.DB, b.Folder)
	if drive.IsKind(err, drive.NotFound) || err == nil && !live {
		return nil, &refusal{reasonGone, "its folder is gone"}
	}
	if err != nil {
		return nil, err
	}
	there := map[drive.Name]tree.Node{}
	for after := drive.Name(""); ; {
		page, err := in.opt.Tree.ChildrenAfter(ctx, in.opt.DB, b.Folder, after, folderPage)
		if err != nil {
			return nil, err
		}
		for _, n := range page {
			after = n.Name
			there[n.Name] = n
		}
		if len(page) < folderPage {
			return there, nil
		}
	}
}

// locate finds the declared members in the bundle's folder, in the order of the manifest. A member
// that is missing or has another size gets its field wrong set. It fails with *refusal if the
// folder is gone or in the trash.
func (in *checker) locate(ctx context.Context, b *row, m *bundle.Manifest) ([]member, error) {
	there, err := in.folderNodes(ctx, b)
	if err != nil {
		return nil, err
	}
	members := make([]member, len(m.Members))
	for i, d := range m.Members {
		members[i] = member{
			N: int64(i) + 1, Name: d.Name, Size: drive.ByteSize(d.Size), Type: d.Type, SHA256: d.SHA256, Documents: int64(d.Documents),
			State: "pending",
		}
		n, ok := there[drive.Name(d.Name)]
		switch {
		case !ok || n.IsFolder():
			members[i].wrong = reasonMissing
		case n.Size != members[i].Size:
			members[i].wrong = reasonDiffer
		}
		members[i].Node, members[i].Blob = n.ID, n.Blob
	}
	return members, nil
}

// compareBatch is the number of members that one statement looks up.
const compareBatch = 500

// compare compares the SHA-256 of each member with the manifest and sets the field wrong of each
// that differs. It reads the bytes of a member only if the database has no SHA-256 for its content.
// It fails only with an error of the database or the store.
func (in *checker) compare(ctx context.Context, members []member) error {
	for at := 0; at < len(members); at += compareBatch {
		page := members[at:min(at+compareBatch, len(members))]
		var blobs []drive.BlobID
		for _, m := range page {
			if m.wrong == "" {
				blobs = append(blobs, m.Blob)
			}
		}
		sums, err := in.opt.Content.AliasesMany(ctx, in.opt.DB, blobs)
		if err != nil {
			return err
		}
		found, err := in.opt.Content.FindMany(ctx, in.opt.DB, blobs...)
		if err != nil {
			return err
		}
		for i := range page {
			if err := in.compareOne(ctx, &page[i], sums, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareOne sets m.wrong if the content of m is gone, damaged or has another SHA-256. It fails
// only with an error of the store.
func (in *checker) compareOne(ctx context.Context, m *member, sums map[drive.BlobID]digest.Set, found map[drive.BlobID]content.Blob) error {
	if m.wrong != "" {
		return nil
	}
	b, stored := found[m.Blob]
	if !stored { // the file was replaced between the two queries
		m.wrong = reasonMissing
		return nil
	}
	if b.Damaged != 0 {
		m.wrong = reasonDamaged
		return nil
	}
	sum := sums[m.Blob][digest.SHA256]
	if sum == nil {
		var err error
		if sum, err = in.readSum(ctx, b); err != nil {
			return fmt.Errorf("read member %q: %w", m.Name, err)
		}
	}
	if hex.EncodeToString(sum) != m.SHA256 {
		m.wrong = reasonDiffer
	}
	return nil
}

// readSum computes the SHA-256 of a content from its bytes. It fails with an error of the store or
// when the deadline of ctx passes.
func (in *checker) readSum(ctx context.Context, b content.Blob) ([]byte, error) {
	object, err := in.openFile(ctx, b.File)
	if err != nil {
		return nil, err
	}
	defer object.Close() //nolint:errcheck // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, bounded(ctx, object)); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}

// complete returns nil if no member is wrong. Otherwise it returns late's error, naming up to ten
// members. If that error rejects the bundle, complete first stores the members with their reasons.
func (in *checker) complete(ctx context.Context, b *row, members []member) error {
	var names []string
	reason := ""
	for _, m := range members {
		if m.wrong == "" {
			continue
		}
		if reason == "" {
			reason = m.wrong
		}
		if len(names) < 10 {
			names = append(names, m.Name)
		}
	}
	if reason == "" {
		return nil
	}
	late := in.late(ctx, b, reason, strings.Join(names, ", "))
	if _, over := errors.AsType[*refusal](late); over {
		if err := in.saveDeclared(ctx, b, members); err != nil {
			return err
		}
	}
	return late
}

// late returns the error for a bundle that lacks something: *waiting until b.WaitsUntil and
// *refusal afterwards, both with reason and detail. If the clock cannot be read, it returns that
// error. It is never nil.
func (in *core) late(ctx context.Context, b *row, reason, detail string) error {
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	if now < b.WaitsUntil {
		return &waiting{reason, detail}
	}
	return &refusal{reason, detail}
}

// saveMembers stores the members and the totals of the bundle, and marks it as checked. It also
// sets the fields of b. lease.ErrFenced: this worker has lost the bundle.
func (in *checker) saveMembers(ctx context.Context, b *row, members []member) error {
	if err := in.insertMembers(ctx, b, members); err != nil {
		return err
	}
	var declared int64
	var size drive.ByteSize
	for _, m := range members {
		declared, size = declared+m.Documents, size+m.Size
	}
	err := in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "declared = ?, members = ?, size = ?, checked = 1, reason = '', detail = ''", declared, len(members), size)
	})
	if err == nil {
		b.declared, b.Members, b.Size, b.Checked = declared, int64(len(members)), size, true
	}
	return err
}

// saveDeclared stores the members and totals of a bundle that is about to be rejected. Members that
// are wrong get state rejected and their reason. lease.ErrFenced: this worker has lost the bundle.
func (in *checker) saveDeclared(ctx context.Context, b *row, members []member) error {
	var declared int64
	var size drive.ByteSize
	for i := range members {
		declared, size = declared+members[i].Documents, size+members[i].Size
		if members[i].wrong != "" {
			members[i].State, members[i].Reason = "rejected", members[i].wrong
		}
	}
	if err := in.insertMembers(ctx, b, members); err != nil {
		return err
	}
	err := in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "declared = ?, members = ?, size = ?", declared, len(members), size)
	})
	if err == nil {
		b.declared, b.Members, b.Size = declared, int64(len(members)), size
	}
	return err
}

// insertRows is the number of rows per INSERT statement, insertBatch the number of rows per
// transaction.
const (
	insertRows  = 100
	insertBatch = 1000
)

// insertMembers inserts rows of bundle_members, in transactions of insertBatch rows.
// lease.ErrFenced: this worker has lost the bundle.
func (in *checker) insertMembers(ctx context.Context, b *row, members []member) error {
	for at := 0; at < len(members); at += insertBatch {
		page := members[at:min(at+insertBatch, len(members))]
		err := in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := b.update(ctx, tx, "checked = 0"); err != nil {
				return err
			}
			return insertMany(ctx, tx, "bundle_members (bundle_id, "+memberColumns+")", 11, page, func(m member) []any {
				return []any{b.ID, m.N, m.Name, m.Size, m.Type, m.SHA256, m.Documents, m.Node, m.Blob, m.State, m.Reason}
			})
		})
		if err != nil {
			return fmt.Errorf("write down the members of bundle %s: %w", b.ID, err)
		}
	}
	return nil
}

// insertMany inserts all rows with statements of insertRows rows each. The argument into is a table
// with its column list, width the number of columns, and args returns the values of one row. It
// stops at the first error; the caller's transaction must then fail.
func insertMany[T any](ctx context.Context, tx *sqldb.Tx, into string, width int, all []T, args func(T) []any) error {
	for at := 0; at < len(all); at += insertRows {
		page := all[at:min(at+insertRows, len(all))]
		values := make([]any, 0, len(page)*width)
		for _, one := range page {
			values = append(values, args(one)...)
		}
		marks := strings.TrimSuffix(strings.Repeat("("+sqldb.Placeholders(width)+"), ", len(page)), ", ")
		if _, err := tx.Exec(ctx, "INSERT INTO "+into+" VALUES "+marks, values...); err != nil {
			return fmt.Errorf("insert into %.30s: %w", into, err)
		}
	}
	return nil
}

// dropRecorded deletes the members and records that an earlier attempt at the bundle stored. It
// works in several transactions and may be repeated. lease.ErrFenced: this worker has lost the
// bundle.
func (in *checker) dropRecorded(ctx context.Context, b *row) error {
	for _, table := range []string{"bundle_members", "bundle_records"} {
		for n := int64(insertBatch); n == insertBatch; {
			err := in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
				if err := b.update(ctx, tx, "checked = 0"); err != nil {
					return err
				}
				n, err = dropSome(ctx, tx, table, b.ID)
				return err
			})
			if err != nil {
				return fmt.Errorf("drop rows of %s: %w", table, err)
			}
		}
	}
	return nil
}

// dropSome deletes up to insertBatch rows of a bundle from bundle_members or bundle_records. A
// result below insertBatch means that no rows are left. It fails with an error of the database.
func dropSome(ctx context.Context, tx *sqldb.Tx, table string, id drive.BundleID) (int64, error) {
	if table == "bundle_members" {
		return tx.DeleteBatch(ctx, sqldb.Batch{Table: table, Key: "n", Where: "bundle_id = ?", Args: []any{id}, Limit: insertBatch})
	}
	var first *int64
	err := tx.QueryRow(ctx, "SELECT MIN(member) FROM bundle_records WHERE bundle_id = ?", id).Scan(&first)
	if err != nil || first == nil {
		return 0, err
	}
	n, err := tx.DeleteBatch(ctx, sqldb.Batch{
		Table: table, Key: "idx", Where: "bundle_id = ? AND member = ?", Args: []any{id, *first}, Limit: insertBatch,
	})
	if n > 0 {
		n = insertBatch // other members may have records
	}
	return n, err
}
