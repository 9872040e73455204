package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Bucket is object storage outside of the drive, where zips are published for programs that read
// the bucket directly. Parts of an object name are separated by slashes. All methods are idempotent
// and safe for concurrent use by several processes, also on the same object.
type Bucket interface {
	// Find returns the size of the published object of that name, or NotFound. Unfinished uploads
	// are not found.
	Find(ctx context.Context, name string) (drive.ByteSize, error)
	// Begin returns the open upload of an object and the sizes of its stored parts by part number.
	// If there is no open upload, Begin starts one.
	Begin(ctx context.Context, name, media string) (upload string, parts map[int]drive.ByteSize, err error)
	// Put stores or replaces part n. If reading body fails, nothing is stored.
	Put(ctx context.Context, name, upload string, n int, size drive.ByteSize, body io.Reader) error
	// Publish assembles the object atomically from parts 0 to count-1. If the object exists
	// already, Publish does nothing. If the upload or a part is missing, it returns NotFound.
	Publish(ctx context.Context, name, upload string, count int) error
	// Remove deletes an object and the unfinished uploads of its name. If there is none it does
	// nothing and returns nil.
	Remove(ctx context.Context, name string) error
	// List calls fn with the name of each object, including objects with an unfinished upload.
	List(ctx context.Context, fn func(name string) error) error
}

// A job for the bucket has the id of its batch as its folder. So a batch has at most one object,
// and repeated requests are idempotent. The object is not a file of the drive and is not charged;
// the bytes of an account in the bucket are limited by the quota of the account. The object is
// deleted when the batch ends. If a crash prevents this, Purge finds the object by its name:
//
//	<account>/<batch>/<name of the zip>

const (
	firstBucketPart = 16 * drive.MiB // size of the parts of a zip; partSize doubles it for large zips
	maxBucketParts  = 10_000         // S3 allows no more parts, and no part above 5 GiB
)

// inBucket reports whether the job writes into the bucket instead of a folder.
func (j *Job) inBucket() bool { return j.Folder == drive.NodeID(j.Export) }

// objectName returns the name in the bucket of the zip of a batch.
func objectName(account drive.AccountID, id drive.ExportID, file string) string {
	return account.String() + "/" + id.String() + "/" + file
}

// publisher manages the objects in the bucket.
type publisher struct {
	*core
	sender  *sender
	minPart drive.ByteSize // initial part size; set by tests
}

// partSize returns the part size for a zip of the given size. The result depends on nothing else,
// so every instance computes the same parts.
func (p *publisher) partSize(size drive.ByteSize) drive.ByteSize {
	part := p.minPart
	for size > part*maxBucketParts {
		part *= 2
	}
	return part
}

// bucketTarget is the target that writes the zip of one batch to the bucket.
type bucketTarget struct {
	*publisher
	name   string // name of the object
	d      Download
	upload string // id of the multipart upload, set by open
}

// target returns the bucket object as the target of job j.
func (p *publisher) target(j *Job, d Download) *bucketTarget {
	return &bucketTarget{publisher: p, name: objectName(j.account, j.Export, j.Name), d: d}
}

// open begins or continues the upload of the object and sets t.upload. The result says which parts
// the bucket has in full length. If the object is published in full already, the result is done and
// nothing is begun.
func (t *bucketTarget) open(ctx context.Context) (targetState, error) {
	size := t.partSize(t.d.Size)
	done, err := t.published(ctx)
	if done || err != nil {
		return targetState{done: done, partSize: size}, err
	}
	upload, parts, err := t.opt.Bucket.Begin(ctx, t.name, "application/zip")
	if err != nil {
		return targetState{}, err
	}
	t.upload = upload
	t.testHook("begun")
	return targetState{partSize: size, has: func(n int) bool {
		from, to := t.d.archive.Part(n, size)
		return parts[n] == to-from
	}}, nil
}

// published reports whether the bucket has the object with the size of the zip. An object of
// another size is an error, since it is not this zip.
func (t *bucketTarget) published(ctx context.Context) (bool, error) {
	size, err := t.opt.Bucket.Find(ctx, t.name)
	if drive.IsKind(err, drive.NotFound) {
		return false, nil
	}
	if err == nil && size != t.d.Size {
		err = fmt.Errorf("the object %s has %d bytes of %d", t.name, size, t.d.Size)
	}
	return err == nil, err
}

// put uploads part n, of size bytes, to the upload that open began.
func (t *bucketTarget) put(ctx context.Context, n int, size drive.ByteSize, body io.Reader) error {
	return t.opt.Bucket.Put(ctx, t.name, t.upload, n, size, body)
}

// complete publishes the object from its parts, and reports whether the bucket then shows it in
// full. If a part or the upload is lost, it returns Unavailable, so that the job starts over.
func (t *bucketTarget) complete(ctx context.Context) (bool, error) {
	err := t.opt.Bucket.Publish(ctx, t.name, t.upload, t.d.archive.Parts(t.partSize(t.d.Size)))
	if err != nil {
		if drive.IsKind(err, drive.NotFound) { // a part is missing, not the batch: Unavailable makes the job start over
			err = drive.Wrap(err, drive.Unavailable)
		}
		return false, err
	}
	t.testHook("published")
	return t.published(ctx)
}

// abandon removes the object and its unfinished uploads from the bucket.
func (t *bucketTarget) abandon(ctx context.Context) error { return t.opt.Bucket.Remove(ctx, t.name) }

// MaterialiseInBucket starts a job that writes a sealed zip into the bucket, or returns the
// existing job. Without a configured bucket it returns Forbidden. If the account would exceed its
// quota in the bucket, it returns Quota.
func (e *Exports) MaterialiseInBucket(ctx context.Context, who drive.Who, id drive.ExportID) (Job, error) {
	return e.publisher.materialise(ctx, who, id)
}

// materialise inserts a job that copies a sealed batch into the bucket, or returns the existing job
// unless that has failed, and wakes the workers. It returns Forbidden without a bucket, and the
// errors of sender.open and addJob.
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
		j, err = p.addJob(ctx, tx, who, Job{Export: id, Name: d.Filename()}, d.Size, now)
		return err
	})
	if err != nil {
		return Job{}, fmt.Errorf("insert a job of batch %s: %w", id, err)
	}
	p.Wake()
	return j.forOwner(), nil
}

// addJob returns the existing job that copies the batch into the bucket, unless that has failed;
// otherwise it inserts j within tx. It locks the ledger of the account. It returns Quota if the
// account would exceed its limit in the bucket, and TooManyOpen.
func (p *publisher) addJob(ctx context.Context, tx *sqldb.Tx, who drive.Who, j Job, size drive.ByteSize, now drive.Time) (Job, error) {
	if err := p.opt.Ledger.Lock(ctx, tx, who.Account); err != nil {
		return Job{}, err
	}
	old, found, err := p.job(ctx, tx, j.Export, "AND state <> 'failed'")
	if err != nil || found {
		return old, err
	}
	if err := p.checkQuota(ctx, tx, who.Account, size); err != nil {
		return Job{}, err
	}
	j.ID, j.Folder, j.State, j.account, j.user = drive.NewID[drive.JobID](), drive.NodeID(j.Export), "pending", who.Account, who.User
	return j, insertJob(ctx, tx, j, now)
}

// addJobForSealed inserts the job for the bucket if the schedule of the batch asks for it. The
// caller runs it in the transaction that seals the batch, so a crash cannot separate the two. If
// the bucket is no longer configured or a limit is exceeded, addJobForSealed only logs a warning,
// and the batch is sealed without a job. The owner can request the job later.
func (p *publisher) addJobForSealed(ctx context.Context, tx *sqldb.Tx, b *batch, size drive.ByteSize, now drive.Time) error {
	var err error = drive.Fail(drive.Forbidden)
	if p.opt.Bucket != nil {
		_, err = p.addJob(ctx, tx, drive.Who{User: b.User, Account: b.Account}, Job{Export: b.ID, Name: zipName(b.Name, b.part, b.Revision)}, size, now)
	}
	if drive.IsKind(err, drive.Forbidden, drive.Quota, drive.TooManyOpen) {
		p.log.WarnContext(ctx, "the sealed zip is not sent to the bucket; its owner can request it again", "export", b.ID, "error", err)
		return nil
	}
	if err == nil {
		tx.AfterCommit(p.Wake)
	}
	return err
}

// job returns a job that copies batch id into the bucket; and is "" or an SQL condition that begins
// with AND. found is false, without an error, if there is none.
func (p *publisher) job(ctx context.Context, q sqldb.Querier, id drive.ExportID, and string) (j Job, found bool, err error) {
	err = scanJob(&j, q.QueryRow(ctx, "SELECT "+jobColumns+" FROM export_jobs WHERE export_id = ? AND folder_id = ? "+and+" LIMIT 1", id, id).Scan)
	if drive.IsKind(err, drive.NotFound) {
		return Job{}, false, nil
	}
	return j, err == nil, err
}

// checkQuota returns Quota if an object of the given size, beside the objects that the account has
// in the bucket, would exceed the account's quota. An account without a quota has no limit.
func (p *publisher) checkQuota(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, size drive.ByteSize) error {
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

// removeObject deletes the object of an ended batch from the bucket. It does nothing if there is no
// bucket or the batch has no bucket job.
func (p *publisher) removeObject(ctx context.Context, b batch) error {
	if p.opt.Bucket == nil {
		return nil
	}
	j, found, err := p.job(ctx, p.opt.DB, b.ID, "")
	if err != nil || !found {
		return err
	}
	return p.opt.Bucket.Remove(ctx, objectName(b.Account, b.ID, j.Name))
}

// sweep deletes the objects of ended batches. Such objects are left if a stalled worker publishes
// after withdraw, or if the bucket was unreachable during withdraw.
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
		over, err := p.isOrphan(ctx, name, now)
		if over {
			left = append(left, name)
		}
		return err
	})
	for _, name := range left {
		if err == nil {
			p.log.InfoContext(ctx, "removing the bucket object of an ended batch", "object", name)
			err = p.opt.Bucket.Remove(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("look through the bucket: %w", err)
	}
	return nil
}

// isOrphan reports whether the batch of an object has ended. Objects with other names are never
// reported: another installation, such as a copy of this one, may own them. If the batch has no
// row, isOrphan reports true only if the account exists and the batch id is older than the
// retention of rows.
func (p *publisher) isOrphan(ctx context.Context, name string, now drive.Time) (bool, error) {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) != 3 {
		return false, nil
	}
	account, accountErr := drive.ParseID[drive.AccountID](parts[0])
	id, err := drive.ParseID[drive.ExportID](parts[1])
	if errors.Join(err, accountErr) != nil {
		return false, nil //nolint:nilerr // not one of our names
	}
	b, err := p.find(ctx, p.opt.DB, "WHERE id = ? AND account_id = ?", id, account)
	if !drive.IsKind(err, drive.NotFound) {
		return err == nil && b.State != Sealed, err
	}
	if int64(now)-createdMilli(id) < (keepRows + p.opt.Lifetime).Milliseconds() {
		return false, nil
	}
	_, err = p.opt.Ledger.Get(ctx, p.opt.DB, account)
	if drive.IsKind(err, drive.NotFound) {
		return false, nil
	}
	return err == nil, err
}
