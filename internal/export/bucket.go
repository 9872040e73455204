package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Bucket is where zips are published as objects, beside the drive, for programs that read the
// bucket itself. Names have slashes between their parts. Any number of processes may call its
// methods, for the same object, and again.
type Bucket interface {
	// Find returns the size of an object that is published. NotFound: it is not.
	Find(ctx context.Context, name string) (drive.ByteSize, error)
	// Begin returns the upload of an object and the sizes of the parts that it has, by number; it
	// begins one if there is none.
	Begin(ctx context.Context, name, media string) (upload string, parts map[int]drive.ByteSize, err error)
	// Put stores a part. One that is stored already is replaced; one whose body fails is not
	// stored.
	Put(ctx context.Context, name, upload string, n int, size drive.ByteSize, body io.Reader) error
	// Publish makes the object of the first count parts, all of it at once, unless it is there.
	// NotFound: a part is missing, or the upload.
	Publish(ctx context.Context, name, upload string, count int) error
	// Remove removes an object and what has come of it.
	Remove(ctx context.Context, name string) error
	// List calls fn with the names of all objects, also of those that have not been published yet.
	List(ctx context.Context, fn func(name string) error) error
}

// A job for the bucket has the id of its batch in the place of a folder: there is one object of a
// batch, whoever asks for it and however often. It is not a file of the drive and not charged; what
// lies in the bucket of an account is bounded by what the account may have. It goes when the batch
// ends. What is left of a crash then, Purge finds by its name:
//
//	<account>/<batch>/<name of the zip>

const (
	firstBucketPart = 16 * drive.MiB
	maxBucketParts  = 10_000 // S3 takes no more, and no part above 5 GiB
)

// inBucket reports whether a job is for the bucket.
func (j *Job) inBucket() bool { return j.Folder == drive.NodeID(j.Export) }

func objectName(account drive.AccountID, id drive.ExportID, file string) string {
	return account.String() + "/" + id.String() + "/" + file
}

// publisher has the objects of the bucket.
type publisher struct {
	*ground
	sender    *sender
	leastPart drive.ByteSize // the smallest part of an object; of tests
}

// partOf is the size of the parts of a zip; it follows from the size of the zip alone.
func (p *publisher) partOf(size drive.ByteSize) drive.ByteSize {
	part := p.leastPart
	for size > part*maxBucketParts {
		part *= 2
	}
	return part
}

// bucketPlace is the object of a batch as a place.
type bucketPlace struct {
	*publisher
	name   string
	d      Download
	upload string
}

func (p *publisher) place(j *Job, d Download) *bucketPlace {
	return &bucketPlace{publisher: p, name: objectName(j.account, j.Export, j.Name), d: d}
}

func (p *bucketPlace) open(ctx context.Context) (there, error) {
	size := p.partOf(p.d.Size)
	done, err := p.published(ctx)
	if done || err != nil {
		return there{done: done, partSize: size}, err
	}
	upload, parts, err := p.opt.Bucket.Begin(ctx, p.name, "application/zip")
	if err != nil {
		return there{}, err
	}
	p.upload = upload
	p.halt("begun")
	return there{partSize: size, has: func(n int) bool {
		from, to := p.d.archive.Part(n, size)
		return parts[n] == to-from
	}}, nil
}

func (p *bucketPlace) published(ctx context.Context) (bool, error) {
	size, err := p.opt.Bucket.Find(ctx, p.name)
	if drive.IsKind(err, drive.NotFound) {
		return false, nil
	}
	if err == nil && size != p.d.Size {
		err = fmt.Errorf("the object %s has %d bytes of %d", p.name, size, p.d.Size)
	}
	return err == nil, err
}

func (p *bucketPlace) put(ctx context.Context, n int, size drive.ByteSize, body io.Reader) error {
	return p.opt.Bucket.Put(ctx, p.name, p.upload, n, size, body)
}

func (p *bucketPlace) complete(ctx context.Context) (bool, error) {
	err := p.opt.Bucket.Publish(ctx, p.name, p.upload, p.d.archive.Parts(p.partOf(p.d.Size)))
	if err != nil {
		if drive.IsKind(err, drive.NotFound) { // of a part, not of the batch: the next try starts again
			err = drive.Wrap(err, drive.Unavailable)
		}
		return false, err
	}
	p.halt("published")
	return p.published(ctx)
}

func (p *bucketPlace) abandon(ctx context.Context) error { return p.opt.Bucket.Remove(ctx, p.name) }

// MaterialiseInBucket has a sealed zip written into the bucket. Again gives the job that is there.
// Where there is no bucket it is Forbidden; when what lies in it of the account would be more than
// the account may have it is Quota.
func (e *Exports) MaterialiseInBucket(ctx context.Context, who drive.Who, id drive.ExportID) (Job, error) {
	return e.publisher.materialise(ctx, who, id)
}

func (p *publisher) materialise(ctx context.Context, who drive.Who, id drive.ExportID) (Job, error) {
	if p.opt.Bucket == nil {
		return Job{}, drive.Fail(drive.Forbidden)
	}
	d, err := p.sender.open(ctx, who, id)
	if err != nil {
		return Job{}, err
	}
	now, err := p.now(ctx)
	if err != nil {
		return Job{}, err
	}
	var j Job
	err = p.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		j, err = p.order(ctx, tx, who, Job{Export: id, Name: d.Filename()}, d.Size, now)
		return err
	})
	if err != nil {
		return Job{}, fmt.Errorf("insert a job of batch %s: %w", id, err)
	}
	p.Wake()
	return j.shown(), nil
}

// order adds the job for the bucket of a batch, unless it has one.
func (p *publisher) order(ctx context.Context, tx *sqldb.Tx, who drive.Who, j Job, size drive.ByteSize, now drive.Time) (Job, error) {
	if err := p.opt.Ledger.Lock(ctx, tx, who.Account); err != nil {
		return Job{}, err
	}
	old, found, err := p.job(ctx, tx, j.Export, "AND state <> 'failed'")
	if err != nil || found {
		return old, err
	}
	if err := p.mayHold(ctx, tx, who.Account, size); err != nil {
		return Job{}, err
	}
	j.ID, j.Folder, j.State, j.account, j.user = drive.NewID[drive.JobID](), drive.NodeID(j.Export), "pending", who.Account, who.User
	return j, insertJob(ctx, tx, j, now)
}

// sendSealed adds the job for the bucket of a batch that its schedule sends there, in the
// transaction that seals it: so there is one, whoever dies. Where there is no bucket any more, no
// room in it or too many jobs, the batch is sealed all the same; its owner may ask for the job.
func (p *publisher) sendSealed(ctx context.Context, tx *sqldb.Tx, b *batch, size drive.ByteSize, now drive.Time) error {
	var err error = drive.Fail(drive.Forbidden)
	if p.opt.Bucket != nil {
		_, err = p.order(ctx, tx, drive.Who{User: b.User, Account: b.Account}, Job{Export: b.ID, Name: zipName(b.Name, b.part, b.Revision)}, size, now)
	}
	if drive.IsKind(err, drive.Forbidden, drive.Quota, drive.TooManyOpen) {
		p.log.WarnContext(ctx, "a zip is not sent to the bucket", "export", b.ID, "error", err)
		return nil
	}
	if err == nil {
		tx.AfterCommit(p.Wake)
	}
	return err
}

// job finds a job for the bucket of a batch.
func (p *publisher) job(ctx context.Context, q sqldb.Querier, id drive.ExportID, and string) (j Job, found bool, err error) {
	err = scanJob(&j, q.QueryRow(ctx, "SELECT "+jobColumns+" FROM export_jobs WHERE export_id = ? AND folder_id = ? "+and+" LIMIT 1", id, id).Scan)
	if drive.IsKind(err, drive.NotFound) {
		return Job{}, false, nil
	}
	return j, err == nil, err
}

// mayHold refuses an object when those of the account would be more than it may have.
func (p *publisher) mayHold(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, size drive.ByteSize) error {
	balance, err := p.opt.Ledger.Get(ctx, tx, account)
	if err != nil || balance.Total == nil {
		return err
	}
	var there drive.ByteSize
	err = tx.QueryRow(ctx, `SELECT COALESCE(SUM(e.size), 0) FROM exports e WHERE e.account_id = ? AND e.released_at = 0 AND
		EXISTS (SELECT 1 FROM export_jobs j WHERE j.export_id = e.id AND j.folder_id = e.id AND j.state <> 'failed')`, account).Scan(&there)
	if err != nil {
		return fmt.Errorf("add up what lies in the bucket: %w", err)
	}
	if there+size > *balance.Total {
		return drive.Fail(drive.Quota, "needed", size, "available", max(0, *balance.Total-there))
	}
	return nil
}

// withdraw removes the object of a batch that has ended.
func (p *publisher) withdraw(ctx context.Context, b batch) error {
	if p.opt.Bucket == nil {
		return nil
	}
	j, found, err := p.job(ctx, p.opt.DB, b.ID, "")
	if err != nil || !found {
		return err
	}
	return p.opt.Bucket.Remove(ctx, objectName(b.Account, b.ID, j.Name))
}

// sweep removes objects whose batch has ended: a worker that stood still may have published one
// after it was withdrawn, and a bucket that did not answer keeps what it should have removed.
func (p *publisher) sweep(ctx context.Context) error {
	if p.opt.Bucket == nil {
		return nil
	}
	now, err := p.now(ctx)
	if err != nil {
		return err
	}
	var left []string
	err = p.opt.Bucket.List(ctx, func(name string) error {
		over, err := p.isOver(ctx, name, now)
		if over {
			left = append(left, name)
		}
		return err
	})
	for _, name := range left {
		if err == nil {
			p.log.InfoContext(ctx, "an object of a batch that has ended is removed", "object", name)
			err = p.opt.Bucket.Remove(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("look through the bucket: %w", err)
	}
	return nil
}

// isOver reports whether an object is that of a batch that has ended. What nobody here has named
// stays: also what another installation may have put there, which a copy of this one may be. So the
// object of a batch without a row goes only when the account is known, and when the batch is so old
// that its row would have been dropped.
func (p *publisher) isOver(ctx context.Context, name string, now drive.Time) (bool, error) {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) != 3 {
		return false, nil
	}
	account, accountErr := drive.ParseID[drive.AccountID](parts[0])
	id, err := drive.ParseID[drive.ExportID](parts[1])
	if errors.Join(err, accountErr) != nil {
		return false, nil //nolint:nilerr // it is somebody else's
	}
	b, err := p.find(ctx, p.opt.DB, "WHERE id = ? AND account_id = ?", id, account)
	if !drive.IsKind(err, drive.NotFound) {
		return err == nil && b.State != Sealed, err
	}
	if int64(now)-madeAt(id) < (keepRows + p.opt.Life).Milliseconds() {
		return false, nil
	}
	_, err = p.opt.Ledger.Get(ctx, p.opt.DB, account)
	if drive.IsKind(err, drive.NotFound) {
		return false, nil
	}
	return err == nil, err
}
