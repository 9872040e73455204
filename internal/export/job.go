package export

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/instance/lease"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/export/zipline"
)

// A job writes a zip into the drive, as an ordinary upload of the account: reserved, charged and
// published like any; or into the bucket. Its parts are pure functions of the sealed list, so
// another instance goes on where one died, with the parts that are not there yet; it is published
// once, whoever completes it.

// Job is one as its owner sees it.
type Job struct {
	ID     drive.JobID    `json:"id"`
	Export drive.ExportID `json:"export"`
	Folder drive.NodeID   `json:"folder,omitzero" doc:"absent: it goes into the bucket"`
	Object string         `json:"object,omitempty" doc:"its name in the bucket, below exports/"`
	Name   string         `json:"name"`
	State  string         `json:"state" enum:"pending,running,done,failed"`
	Sent   drive.ByteSize `json:"sent" doc:"bytes of the zip that are there already"`
	Node   *drive.NodeID  `json:"node,omitempty" doc:"of a done one"`
	Error  string         `json:"error,omitempty"`

	account drive.AccountID
	user    drive.UserID
	epoch   int64
	tries   int64 // since a part was sent
	upload  drive.UploadID
	node    drive.NodeID
}

const jobColumns = "id, export_id, account_id, user_id, folder_id, name, state, epoch, tries, upload_id, sent, node_id, error"

func scanJob(j *Job, scan func(...any) error) error {
	err := scan(&j.ID, &j.Export, &j.account, &j.user, &j.Folder, &j.Name, &j.State, &j.epoch, &j.tries, &j.upload, &j.Sent, &j.node, &j.Error)
	if err == nil && !j.node.IsZero() {
		j.Node = &j.node
	}
	return err
}

// shown is the job as people see it.
func (j Job) shown() Job {
	if j.inBucket() {
		j.Object, j.Folder = objectName(j.account, j.Export, j.Name), drive.NodeID{}
	}
	return j
}

// courier writes sealed zips where their owners want them, a job for each.
type courier struct {
	*ground
	catalog   *catalog
	queue     *queue
	sender    *sender
	publisher *publisher
}

// Materialise has a sealed zip written into a folder of the drive. The name is that of the zip when
// it is empty; one that is taken gets a number. More than an account may have at a time are
// TooManyOpen.
func (e *Exports) Materialise(ctx context.Context, who drive.Who, id drive.ExportID, folder drive.NodeID, name drive.Name) (Job, error) {
	return e.courier.materialise(ctx, who, id, folder, name)
}

func (c *courier) materialise(ctx context.Context, who drive.Who, id drive.ExportID, folder drive.NodeID, name drive.Name) (Job, error) {
	d, err := c.sender.open(ctx, who, id)
	if err != nil {
		return Job{}, err
	}
	if c.opt.Drive == nil {
		return Job{}, drive.Fail(drive.Forbidden)
	}
	if name == "" {
		if name, err = drive.ParseName(d.Filename()); err != nil {
			return Job{}, err
		}
	}
	if _, _, err := c.liveFolder(ctx, who.Account, folder); err != nil {
		return Job{}, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return Job{}, err
	}
	j := Job{ID: drive.NewID[drive.JobID](), Export: id, Folder: folder, Name: string(name), State: "pending", account: who.Account, user: who.User}
	err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := c.opt.Ledger.Lock(ctx, tx, who.Account); err != nil {
			return err
		}
		return insertJob(ctx, tx, j, now)
	})
	if err != nil {
		return Job{}, fmt.Errorf("insert a job of batch %s: %w", id, err)
	}
	c.Wake()
	return j, nil
}

// maxJobs is how many jobs of an account may wait or run: machines take them in the order in which
// they came, whoever's they are.
const maxJobs = 50

// insertJob adds a job; the account's ledger is locked.
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

// Jobs lists those of a batch, the newest first.
func (e *Exports) Jobs(ctx context.Context, who drive.Who, id drive.ExportID) ([]Job, error) {
	return e.courier.jobs(ctx, who, id)
}

func (c *courier) jobs(ctx context.Context, who drive.Who, id drive.ExportID) ([]Job, error) {
	if _, err := c.catalog.get(ctx, who, id); err != nil {
		return nil, err
	}
	rows, err := c.opt.DB.For(who.Account).Query(ctx, "SELECT "+jobColumns+" FROM export_jobs WHERE export_id = ? ORDER BY id DESC LIMIT 100", id)
	all, err := sqldb.Scan(rows, err, scanJob)
	for i := range all {
		all[i] = all[i].shown()
	}
	return all, err
}

// claim is queue.claim for jobs.
func (c *courier) claim(ctx context.Context) (*Job, error) {
	if c.opt.Drive == nil && c.opt.Bucket == nil {
		return nil, nil
	}
	now, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	var taken *Job
	over := false
	err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		taken = nil
		batches, jobs, err := c.queue.lockMachine(ctx, tx, now)
		if err != nil || batches+jobs >= perMachine || jobs >= perMachine-1 { // jobs take no turns: one place is always one of turns
			return err
		}
		j, err := c.firstDue(ctx, tx, now)
		if err != nil || j == nil {
			return err
		}
		if over = j.State == "running"; over && c.died() {
			j.tries++ // a part that arrives makes it 0
		}
		j.State, j.epoch = "running", j.epoch+1
		_, err = tx.Exec(ctx, "UPDATE export_jobs SET state = 'running', epoch = ?, worker = ?, machine = ?, due_at = ?, tries = ? WHERE id = ?",
			j.epoch, c.opt.Instance, c.opt.Machine, now.Add(lease.Length), j.tries, j.ID)
		taken = j
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim a job: %w", c.answered(err))
	}
	if over && taken != nil {
		c.counters.TakenOver.Add(1)
	}
	return taken, nil
}

// firstDue is queue.firstDue for jobs.
func (c *courier) firstDue(ctx context.Context, tx *sqldb.Tx, now drive.Time) (*Job, error) {
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

// update is batch.update for a job.
func (c *courier) update(ctx context.Context, j *Job, set string, args ...any) error {
	return c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE export_jobs SET "+set+" WHERE id = ? AND epoch = ? AND state = 'running'", append(args, j.ID, j.epoch)...)
		if err == nil && n == 0 {
			err = errFenced
		}
		return err
	})
}

func (c *courier) beat(ctx context.Context, j *Job) (bool, error) {
	now, err := c.now(ctx)
	if err != nil {
		return false, err
	}
	return c.stopFor(ctx, j.user), c.update(ctx, j, "due_at = ?", now.Add(lease.Length))
}

// work writes the zip and says in the job's row how that ended.
func (c *courier) work(ctx context.Context, j *Job) {
	log := c.log.With("export", j.Export, "job", j.ID, "epoch", j.epoch)
	err := lease.Hold(ctx, func(ctx context.Context) (bool, error) { return c.beat(ctx, j) },
		func(ctx context.Context, yield func() bool) error {
			return attempt(j.tries, func() error { return c.write(ctx, j, yield) })
		})
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if errors.Is(err, errFenced) || errors.Is(err, lease.ErrLost) {
		c.counters.Lost.Add(1)
		log.WarnContext(ctx, "a job was lost", "error", err)
		return
	}
	now, clockErr := c.now(after)
	switch {
	case clockErr != nil:
		err = errors.Join(err, clockErr)
	case err == nil:
		c.counters.Saved.Add(1)
		log.InfoContext(ctx, "a zip lies where it was asked for", "node", j.node)
		err = c.update(after, j, "state = 'done', node_id = ?, sent = ?, error = '', ended_at = ?", j.node, j.Sent, now)
	case errors.Is(err, errInactive):
		log.WarnContext(ctx, "a job waits: its user is disabled")
		err = c.update(after, j, "state = 'pending', epoch = epoch + 1, error = ?, due_at = ?", reasonInactive, now.Add(waitForUser))
	case ctx.Err() != nil:
		err = c.update(after, j, "state = 'pending', epoch = epoch + 1, due_at = ?", now)
	case drive.IsKind(err, drive.Unavailable) && !c.unreadable(after, err):
		log.WarnContext(ctx, "a job waits: what it needs is away", "error", err)
		err = c.update(after, j, "state = 'pending', epoch = epoch + 1, error = ?, tries = ?, due_at = ?", reasonAway, j.tries, now.Add(waitForAway))
	case j.tries+1 > maxTries || drive.IsKind(err, drive.Gone, drive.NotFound, drive.DigestMismatch, drive.ParentGone, drive.Forbidden):
		c.counters.BrokenSave.Add(1)
		log.WarnContext(ctx, "a job has failed", "error", err)
		err = c.fail(after, j, whyBroken(err), now)
	default:
		log.WarnContext(ctx, "a job will be tried again", "error", err)
		err = c.update(after, j, "state = 'pending', epoch = epoch + 1, error = ?, tries = ?, due_at = ?",
			whyBroken(err), j.tries+1, now.Add(again(j.tries)))
	}
	if err != nil && !errors.Is(err, errFenced) {
		log.WarnContext(ctx, "how a job ended could not be written; its lease will end", "error", err)
	}
}

// fail ends a job for good. What it has written is given up first: after a crash in between it
// fails once more. That is done under the lease, which says that nobody else writes there.
func (c *courier) fail(ctx context.Context, j *Job, why string, now drive.Time) error {
	if err := c.update(ctx, j, "due_at = ?", now.Add(lease.Length)); err != nil {
		return err
	}
	at, err := c.placeOf(j, Download{})
	if err == nil {
		err = at.abandon(ctx)
	}
	if err != nil { // the drive abandons it by itself in a week, the bucket is looked through
		c.log.WarnContext(ctx, "what a job has written is left", "job", j.ID, "error", err)
	}
	return c.update(ctx, j, "state = 'failed', error = ?, tries = tries + 1, ended_at = ?", why, now)
}

// placeOf is where a job writes.
func (c *courier) placeOf(j *Job, d Download) (place, error) {
	switch {
	case j.inBucket() && c.opt.Bucket != nil:
		return c.publisher.place(j, d), nil
	case !j.inBucket() && c.opt.Drive != nil:
		return inDrive{courier: c, who: j.who(), j: j, d: d}, nil
	}
	return nil, drive.Fail(drive.Forbidden) // this instance is set up otherwise than the one that took the job
}

func (j *Job) who() drive.Who {
	return drive.Who{User: j.user, Account: j.account, Scopes: drive.ScopeRead | drive.ScopeWrite}
}

// write sends the parts that are not there yet, and completes the zip.
func (c *courier) write(ctx context.Context, j *Job, yield func() bool) error {
	if err := c.active(ctx, j.user); err != nil {
		return err
	}
	d, err := c.sender.open(ctx, j.who(), j.Export)
	if err != nil {
		return err
	}
	at, err := c.placeOf(j, d)
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
	if err := c.writeParts(ctx, j, d, at, have, yield); err != nil {
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

func (c *courier) writeParts(ctx context.Context, j *Job, d Download, at place, have there, yield func() bool) error {
	src := c.sender.source(d.archive)
	// An entry that is longer than a part is checked as a whole by the part that ends it: nothing
	// damaged becomes a file.
	var broken atomic.Pointer[zipline.EntryError]
	opt := zipline.Options{Window: 4 * drive.MiB, Recheck: -1, Broken: func(why *zipline.EntryError) {
		c.sender.broken(context.WithoutCancel(ctx), j.Export, why)
		broken.Store(why)
	}}
	for n := range d.archive.Parts(have.partSize) {
		from, to := d.archive.Part(n, have.partSize)
		if !have.has(n) {
			body := d.archive.Open(ctx, src, from, to, opt)
			if err := errors.Join(at.put(ctx, n, to-from, body), body.Close()); err != nil {
				if why := broken.Load(); why != nil { // of a damaged one parts before this may have some, too: none of them may be gone on from
					err = why
				}
				return fmt.Errorf("send part %d of the zip of batch %s: %w", n, j.Export, err)
			}
			j.tries = 0 // a long one may break often
			c.halt("part")
		}
		if err := c.update(ctx, j, "sent = ?, tries = ?", to, j.tries); err != nil {
			return err
		}
		j.Sent = to
		if yield() {
			return errInactive
		}
	}
	return nil
}
