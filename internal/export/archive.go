package export

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Archive is a stored selection of files that the client can download as a zip by id. The server
// stores only the selection. The zip is made from the current contents of the files while it is
// sent.
type Archive struct {
	ID        drive.ArchiveID `json:"id"`
	Name      string          `json:"name" doc:"name of the directory in the zip"`
	Total     int64           `json:"total" doc:"files"`
	Failed    int64           `json:"failed" doc:"number of unreadable files; err.txt in the zip names them"`
	Size      drive.ByteSize  `json:"size" doc:"size of the zip in bytes, computed from the current files"`
	ETag      string          `json:"etag" doc:"ETag of the zip, computed from the current files"`
	ExpiresAt drive.Time      `json:"expires_at"`
}

const (
	archiveLife = 24 * time.Hour // how long an archive can be downloaded; an interrupted download can resume in this time
	// MaxSelected is the largest number of files and folders that a client can select for one
	// archive. In JSON they take 780 KB.
	MaxSelected = 20_000

	maxArchives     = 100     // of one account; a new archive evicts the oldest
	maxPickedOfUser = 100_000 // total of selected nodes in all archives of one account: 1.6 MB
)

// ArchiveHook runs at the end of the transaction that inserts an archive. See Hook.
type ArchiveHook func(ctx context.Context, tx *sqldb.Tx, a Archive) error

// archiveStore stores archives, which are selections of nodes to be zipped while they are sent, as
// rows of archives, and opens them. It never stores a zip.
type archiveStore struct {
	*core
	sender *sender
}

// CreateArchive stores the selection in as an archive, which can be downloaded for a day. It lays
// out the zip once to check that the files can be sent, and reads no contents. The oldest archives
// of the account are deleted if it has too many. It returns TooLarge for more than MaxSelected
// nodes, and otherwise the errors of OpenDirect and hook; then nothing is stored.
func (e *Exports) CreateArchive(ctx context.Context, who drive.Who, client string, in Request, hook ArchiveHook) (Archive, error) {
	return e.archives.create(ctx, who, client, in, hook)
}

// create lays out the zip of a selection once, to check it and to learn its size and ETag, and
// inserts the selection as an archive of the account. hook, unless nil, runs in the same
// transaction. Errors: TooLarge for more than MaxSelected nodes, those of sender.direct and of
// hook, after which nothing is inserted.
func (s *archiveStore) create(ctx context.Context, who drive.Who, client string, in Request, hook ArchiveHook) (Archive, error) {
	if len(in.Nodes) > MaxSelected {
		return Archive{}, drive.Fail(drive.TooLarge, "reason", "picked", "limit", MaxSelected, "sent", len(in.Nodes))
	}
	if in.Name != "" {
		name, err := drive.ParseName(in.Name)
		if err != nil {
			return Archive{}, err
		}
		in.Name = string(name)
	}
	d, err := s.sender.direct(ctx, who, client, in)
	if err != nil {
		return Archive{}, err
	}
	d.Close()
	now, err := s.now(ctx)
	if err != nil {
		return Archive{}, err
	}
	a := Archive{
		ID: drive.NewID[drive.ArchiveID](), Name: d.Name, Total: d.Total, Failed: d.Failed, Size: d.Size, ETag: d.ETag,
		ExpiresAt: now.Add(archiveLife),
	}
	err = s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.insert(ctx, tx, who.Account, a, in, now); err != nil || hook == nil {
			return err
		}
		return hook(ctx, tx, a)
	})
	if err != nil {
		return Archive{}, fmt.Errorf("keep a selection: %w", err)
	}
	return a, nil
}

// insert inserts an archive within tx, after it has locked the account's ledger and evicted the
// oldest archives of the account above its limits.
func (s *archiveStore) insert(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, a Archive, in Request, now drive.Time) error {
	if err := s.opt.Ledger.Lock(ctx, tx, account); err != nil {
		return err
	}
	if err := evictArchives(ctx, tx, account, len(in.Nodes)); err != nil {
		return err
	}
	nodes := make([]byte, 0, 16*len(in.Nodes))
	for _, id := range in.Nodes {
		nodes = append(nodes, id[:]...)
	}
	_, err := tx.Exec(ctx, "INSERT INTO archives (id, account_id, name, folder_id, nodes, picked, etag, made_at) VALUES ("+sqldb.Placeholders(8)+")",
		a.ID, account, a.Name, in.Folder, nodes, len(in.Nodes), a.ETag, now)
	return err
}

// evictArchives deletes the oldest archives of an account until one more archive with that many
// nodes fits into the limits. The caller has locked the ledger of the account.
func evictArchives(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, nodes int) error {
	type row struct {
		id     drive.ArchiveID
		picked int
	}
	rows, err := tx.Query(ctx, "SELECT id, picked FROM archives WHERE account_id = ? ORDER BY made_at DESC, id DESC", account)
	all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.id, &r.picked) })
	if err != nil {
		return err
	}
	for n, r := range all {
		if nodes += r.picked; n+1 < maxArchives && nodes <= maxPickedOfUser {
			continue
		}
		if _, err := tx.Exec(ctx, "DELETE FROM archives WHERE id = ?", r.id); err != nil {
			return err
		}
	}
	return nil
}

// OpenArchive lays out the zip of an archive from the current contents of its files. same reports
// whether the zip still has the ETag from its creation. An expired archive and an archive of
// another account are NotFound; the other errors are those of OpenDirect. The caller closes the
// download.
func (e *Exports) OpenArchive(ctx context.Context, who drive.Who, client string, id drive.ArchiveID) (d Download, same bool, err error) {
	return e.archives.open(ctx, who, client, id)
}

// open lays out the zip of an archive anew from the current files. same reports whether it is byte
// for byte the zip that create saw; if not, files have changed since. It returns NotFound if the
// archive is unknown or expired, and the errors of sender.direct. Without an error the caller must
// close the Download.
func (s *archiveStore) open(ctx context.Context, who drive.Who, client string, id drive.ArchiveID) (d Download, same bool, err error) {
	now, err := s.now(ctx)
	if err != nil {
		return Download{}, false, err
	}
	var in Request
	var nodes []byte
	var etag string
	err = s.opt.DB.For(who.Account).QueryRow(ctx, "SELECT name, folder_id, nodes, etag FROM archives WHERE id = ? AND account_id = ? AND made_at > ?",
		id, who.Account, now.Add(-archiveLife)).Scan(&in.Name, &in.Folder, &nodes, &etag)
	if err != nil {
		return Download{}, false, err
	}
	for ; len(nodes) >= 16; nodes = nodes[16:] {
		in.Nodes = append(in.Nodes, drive.NodeID(nodes[:16]))
	}
	d, err = s.sender.direct(ctx, who, client, in)
	return d, err == nil && d.ETag == etag, err
}

// purge deletes the rows of archives that expired before now, in chunks, until none is left or a
// query fails.
func (s *archiveStore) purge(ctx context.Context, now drive.Time) error {
	return s.deleteInChunks(ctx, sqldb.Batch{Table: "archives", Key: "id", Where: "made_at < ?", Args: []any{now.Add(-archiveLife)}, Order: "made_at"})
}
