package export

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/export/zipline"
)

// A job writes a sealed zip into the drive, as an ordinary upload of the account with reservation
// and charge, or into the bucket. The parts depend only on the frozen list, so another instance can
// resume a job and send the missing parts. The zip is published once, regardless of which instance
// completes it.

// Job is a task to write the zip of a sealed batch into a folder of the drive or into the bucket,
// as shown to its owner. It runs in the background.
type Job struct {
	ID     drive.JobID    `json:"id"`
	Export drive.ExportID `json:"export"`
	Folder drive.NodeID   `json:"folder,omitzero" doc:"folder that the zip is saved to; absent: the zip goes into the bucket"`
	Object string         `json:"object,omitempty" doc:"object name in the bucket, below exports/"`
	Name   string         `json:"name"`
	State  string         `json:"state" enum:"pending,running,done,failed"`
	Sent   drive.ByteSize `json:"sent" doc:"bytes of the zip written so far"`
	Node   *drive.NodeID  `json:"node,omitempty" doc:"the saved file, once the job is done"`
	Error  string         `json:"error,omitempty"`

	account drive.AccountID
	user    drive.UserID
	epoch   int64          // fencing token: incremented by each claim
	tries   int64          // failed tries since the last sent part
	upload  drive.UploadID // of a job for a folder; zero: not begun
	node    drive.NodeID
}

// jobColumns are the columns that scanJob reads.
const jobColumns = "id, export_id, account_id, user_id, folder_id, name, state, epoch, tries, upload_id, sent, node_id, error"

// scanJob reads a row of jobColumns into j by calling scan, whose error it returns. j.Node stays
// nil if the job has written no file.
func scanJob(j *Job, scan func(...any) error) error {
	err := scan(&j.ID, &j.Export, &j.account, &j.user, &j.Folder, &j.Name, &j.State, &j.epoch, &j.tries, &j.upload, &j.Sent, &j.node, &j.Error)
	if err == nil && !j.node.IsZero() {
		j.Node = &j.node
	}
	return err
}

// forOwner returns the job as shown to its owner: the object name instead of the folder for the
// bucket.
func (j Job) forOwner() Job {
	if j.inBucket() {
		j.Object, j.Folder = objectName(j.account, j.Export, j.Name), drive.NodeID{}
	}
	return j
}

// jobRunner inserts and runs jobs, each of which writes the zip of a sealed batch to a folder of
// the drive or to the bucket.
type jobRunner struct {
	*core
	catalog   *catalog
	queue     *queue
	sender    *sender
	publisher *publisher
}

// Materialise inserts a job that writes a sealed zip into a folder of the drive, and returns at
// once; a worker runs it. An empty name means the zip's own file name; if the name exists, a number
// is appended. It returns TooManyOpen above maxJobs, Forbidden without Options.Drive, and the
// errors of Open.
func (e *Exports) Materialise(ctx context.Context, who drive.Who, id drive.ExportID, folder drive.NodeID, name drive.Name) (Job, error) {
	return e.jobs.materialise(ctx, who, id, folder, name)
}

// materialise inserts a pending job that writes the zip of a sealed batch into folder, and wakes
// the workers. An empty name selects the batch's file name. Errors: those of sender.open, Forbidden
// if there is no drive to write to, and those of a folder that is missing or deleted.
func (r *jobRunner) materialise(ctx context.Context, who drive.Who, id drive.ExportID, folder drive.NodeID, name drive.Name) (Job, error) {
	d, err := r.sender.open(ctx, who, id)
	if err != nil {
		return Job{}, err
	}
	if r.opt.Drive == nil {
		return Job{}, drive.Fail(drive.Forbidden)
	}
	if name == "" {
		if name, err = drive.ParseName(d.Filename()); err != nil {
			return Job{}, err
		}
	}
	if _, _, err := r.liveFolder(ctx, who.Account, folder); err != nil {
		return Job{}, err
	}
	now, err := r.now(ctx)
	if err != nil {
		return Job{}, err
	}
	j := Job{ID: drive.NewID[drive.JobID](), Export: id, Folder: folder, Name: string(name), State: "pending", account: who.Account, user: who.User}
	err = r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := r.opt.Ledger.Lock(ctx, tx, who.Account); err != nil {
			return err
		}
		return insertJob(ctx, tx, j, now)
	})
	if err != nil {
		return Job{}, fmt.Errorf("insert a job of batch %s: %w", id, err)
	}
	r.Wake()
	return j, nil
}

// maxJobs limits the pending and running jobs of one account. Jobs have no turns between accounts:
// machines claim them in order of creation.
const maxJobs = 50

// insertJob inserts a job, or returns TooManyOpen. The caller has locked the account's ledger.
func insertJob(ctx context.Context, tx *sqldb.Tx, j Job, now drive.Time) error {
	var have int
	err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM export_jobs WHERE account_id = ? AND state IN ('pending', 'running')", j.account).Scan(&have)
	if err != nil {
		return err
	}
	if have >= maxJobs {
		return drive.Fail(drive.TooManyOpen, "reason", "export-jobs", "limit", maxJobs, "sent", have+1)
	}
	_, err = tx.Exec(ctx, `INSERT INTO export_jobs (id, export_id, account_id, user_id, folder_id, name, state, worker, machine, due_at, error, created_at)
		VALUES (?, ?, ?, ?, ?, ?, 'pending', '', '', ?, '', ?)`, j.ID, j.Export, j.account, j.user, j.Folder, j.Name, now, now)
	return err
}

// Jobs returns up to 100 jobs of a batch of the caller's account, newest first, or NotFound. A
// batch without jobs has an empty result.
func (e *Exports) Jobs(ctx context.Context, who drive.Who, id drive.ExportID) ([]Job, error) {
	return e.jobs.jobs(ctx, who, id)
}

// jobs returns up to 100 jobs of a batch, newest first, as their owner sees them. It returns
// NotFound for a batch of another account.
func (r *jobRunner) jobs(ctx context.Context, who drive.Who, id drive.ExportID) ([]Job, error) {
	if _, err := r.catalog.get(ctx, who, id); err != nil {
		return nil, err
	}
	rows, err := r.opt.DB.For(who.Account).Query(ctx, "SELECT "+jobColumns+" FROM export_jobs WHERE export_id = ? ORDER BY id DESC LIMIT 100", id)
	all, err := sqldb.Scan(rows, err, scanJob)
	for i := range all {
		all[i] = all[i].forOwner()
	}
	return all, err
}

// claim claims the first due job for this machine: it makes the job running under the next epoch
// and a lease. It returns nil without an error if no job is due, if the machine has enough work, or
// if there is neither a drive nor a bucket to write to. See queue.claim.
func (r *jobRunner) claim(ctx context.Context) (*Job, error) {
	if r.opt.Drive == nil && r.opt.Bucket == nil {
		return nil, nil
	}
	now, err := r.now(ctx)
	if err != nil {
		return nil, err
	}
	var taken *Job
	over := false
	err = r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		taken = nil
		batches, jobs, err := r.queue.lockMachine(ctx, tx, now)
		if err != nil || batches+jobs >= perMachine || jobs >= perMachine-1 { // jobs have no turns: keep one slot for batches
			return err
		}
		j, err := r.firstDue(ctx, tx, now)
		if err != nil || j == nil {
			return err
		}
		if over = j.State == "running"; over && r.holderCrashed() {
			j.tries++ // sending a part resets it to 0
		}
		j.State, j.epoch = "running", j.epoch+1
		_, err = tx.Exec(ctx, "UPDATE export_jobs SET state = 'running', epoch = ?, worker = ?, machine = ?, due_at = ?, tries = ? WHERE id = ?",
			j.epoch, r.opt.Instance, r.opt.Machine, now.Add(lease.TTL), j.tries, j.ID)
		taken = j
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim a job: %w", r.noteOutage(err))
	}
	if over && taken != nil {
		r.counters.TakenOver.Add(1)
	}
	return taken, nil
}

// firstDue locks within tx and returns the first due job that no other claimer has locked; nil,
// without an error, if there is none among the first candidates.
func (r *jobRunner) firstDue(ctx context.Context, tx *sqldb.Tx, now drive.Time) (*Job, error) {
	const due = "state IN ('pending', 'running') AND due_at <= ?"
	rows, err := tx.Query(ctx, "SELECT id FROM export_jobs WHERE "+due+" ORDER BY due_at, id LIMIT ?", now, candidates)
	ids, err := sqldb.Scan(rows, err, func(id *drive.JobID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		var j Job
		err := scanJob(&j, tx.QueryRow(ctx, "SELECT "+jobColumns+" FROM export_jobs WHERE id = ? AND "+due+skipLocked(tx), id, now).Scan)
		if err == nil || !drive.IsKind(err, drive.NotFound) {
			return &j, err
		}
	}
	return nil, nil
}

// update executes "UPDATE export_jobs SET" set for a job that this worker owns, in its own
// transaction. It returns errFenced, and changes nothing, if another worker has claimed the job or
// it has ended.
func (r *jobRunner) update(ctx context.Context, j *Job, set string, args ...any) error {
	return r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE export_jobs SET "+set+" WHERE id = ? AND epoch = ? AND state = 'running'", append(args, j.ID, j.epoch)...)
		if err == nil && n == 0 {
			err = errFenced
		}
		return err
	})
}

// renewLease extends the lease of a job by lease.TTL. It returns true if the user was disabled, so
// that the job should yield, and errFenced if the job was lost.
func (r *jobRunner) renewLease(ctx context.Context, j *Job) (bool, error) {
	now, err := r.now(ctx)
	if err != nil {
		return false, err
	}
	return r.userInactive(ctx, j.user), r.update(ctx, j, "due_at = ?", now.Add(lease.TTL))
}

// work runs a claimed job under its lease and records the outcome in its row: done, failed for
// good, or pending again after a delay. It returns nothing; errors are logged.
func (r *jobRunner) work(ctx context.Context, j *Job) {
	log := r.log.With("export", j.Export, "job", j.ID, "epoch", j.epoch)
	err := lease.Run(ctx, func(ctx context.Context) (bool, error) { return r.renewLease(ctx, j) },
		func(ctx context.Context, yield func() bool) error {
			return attempt(j.tries, func() error { return r.write(ctx, j, yield) })
		})
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if errors.Is(err, errFenced) || errors.Is(err, lease.ErrLost) {
		r.counters.Lost.Add(1)
		log.WarnContext(ctx, "job lost to another worker; it stops here", "error", err)
		return
	}
	now, clockErr := r.now(after)
	switch {
	case clockErr != nil:
		err = errors.Join(err, clockErr)
	case err == nil:
		r.counters.FinishedJobs.Add(1)
		log.InfoContext(ctx, "the zip of an export was written", "node", j.node)
		err = r.update(after, j, "state = 'done', node_id = ?, sent = ?, error = '', ended_at = ?", j.node, j.Sent, now)
	case errors.Is(err, errInactive):
		log.WarnContext(ctx, "job postponed: its user is disabled")
		err = r.update(after, j, "state = 'pending', epoch = epoch + 1, error = ?, due_at = ?", reasonInactive, now.Add(waitForUser))
	case ctx.Err() != nil:
		err = r.update(after, j, "state = 'pending', epoch = epoch + 1, due_at = ?", now)
	case drive.IsKind(err, drive.Unavailable) && !r.contentUnreadable(after, err):
		log.WarnContext(ctx, "job postponed: the database or a store is unavailable", "error", err)
		err = r.update(after, j, "state = 'pending', epoch = epoch + 1, error = ?, tries = ?, due_at = ?", reasonUnavailable, j.tries, now.Add(waitForStores))
	case j.tries+1 > maxTries || drive.IsKind(err, drive.Gone, drive.NotFound, drive.DigestMismatch, drive.ParentGone, drive.Forbidden):
		r.counters.FailedJobs.Add(1)
		log.WarnContext(ctx, "job failed for good", "error", err)
		err = r.fail(after, j, failureReason(err), now)
	default:
		log.WarnContext(ctx, "job failed; it will be retried", "error", err)
		err = r.update(after, j, "state = 'pending', epoch = epoch + 1, error = ?, tries = ?, due_at = ?",
			failureReason(err), j.tries+1, now.Add(retryDelay(j.tries)))
	}
	if err != nil && !errors.Is(err, errFenced) {
		log.WarnContext(ctx, "the outcome of a job could not be stored; its lease will expire and the job is retried", "error", err)
	}
}

// fail ends a job for good. It first extends the lease, so that no other worker writes, and then
// deletes the parts already sent. After a crash in between, the job fails again.
func (r *jobRunner) fail(ctx context.Context, j *Job, why string, now drive.Time) error {
	if err := r.update(ctx, j, "due_at = ?", now.Add(lease.TTL)); err != nil {
		return err
	}
	at, err := r.targetOf(j, Download{})
	if err == nil {
		err = at.abandon(ctx)
	}
	if err != nil { // the drive abandons the upload in a week; sweep checks the bucket
		r.log.WarnContext(ctx, "the parts of a failed job could not be deleted; housekeeping deletes them later", "job", j.ID, "error", err)
	}
	return r.update(ctx, j, "state = 'failed', error = ?, tries = tries + 1, ended_at = ?", why, now)
}

// targetOf returns the destination of a job. It returns Forbidden if this instance is not
// configured for that destination.
func (r *jobRunner) targetOf(j *Job, d Download) (target, error) {
	switch {
	case j.inBucket() && r.opt.Bucket != nil:
		return r.publisher.target(j, d), nil
	case !j.inBucket() && r.opt.Drive != nil:
		return driveTarget{jobRunner: r, who: j.who(), j: j, d: d}, nil
	}
	return nil, drive.Fail(drive.Forbidden) // configured differently from the instance that accepted the job
}

// who returns the identity that a job acts as: its user and account with read and write scope.
func (j *Job) who() drive.Who {
	return drive.Who{User: j.user, Account: j.account, Scopes: drive.ScopeRead | drive.ScopeWrite}
}

// write sends the missing parts of the zip to the target of the job, and waits until the target has
// it in full. It returns errInactive if the user is disabled or yield reports true.
func (r *jobRunner) write(ctx context.Context, j *Job, yield func() bool) error {
	if err := r.checkActive(ctx, j.user); err != nil {
		return err
	}
	d, err := r.sender.open(ctx, j.who(), j.Export)
	if err != nil {
		return err
	}
	at, err := r.targetOf(j, d)
	if err != nil {
		return err
	}
	have, err := at.open(ctx)
	if err != nil {
		return err
	}
	if have.done {
		j.Sent = d.Size
		return nil
	}
	if err := r.writeParts(ctx, j, d, at, have, yield); err != nil {
		return err
	}
	for {
		if done, err := at.complete(ctx); done || err != nil {
			return err
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// writeParts sends the parts that the target does not have, in order, and stores the progress after
// each, which resets the failed tries. It returns errInactive once yield reports true. If stored
// bytes are damaged, it reports that and fails with the *zipline.EntryError.
func (r *jobRunner) writeParts(ctx context.Context, j *Job, d Download, at target, have targetState, yield func() bool) error {
	src := r.sender.source(d.archive)
	// An entry longer than a part is verified in full with the part where it ends, so that no
	// damaged file is published.
	var broken atomic.Pointer[zipline.EntryError]
	opt := zipline.Options{Window: 4 * drive.MiB, VerifyLimit: -1, OnBroken: func(why *zipline.EntryError) {
		r.sender.reportBroken(context.WithoutCancel(ctx), j.Export, why)
		broken.Store(why)
	}}
	for n := range d.archive.Parts(have.partSize) {
		from, to := d.archive.Part(n, have.partSize)
		if !have.has(n) {
			body := d.archive.Open(ctx, src, from, to, opt)
			if err := errors.Join(at.put(ctx, n, to-from, body), body.Close()); err != nil {
				if why := broken.Load(); why != nil { // earlier parts may hold damaged bytes, too: the job must not resume from them
					err = why
				}
				return fmt.Errorf("send part %d of the zip of batch %s: %w", n, j.Export, err)
			}
			j.tries = 0 // a long job may fail often
			r.testHook("part")
		}
		if err := r.update(ctx, j, "sent = ?, tries = ?", to, j.tries); err != nil {
			return err
		}
		j.Sent = to
		if yield() {
			return errInactive
		}
	}
	return nil
}
