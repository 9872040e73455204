package innodb

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/sqldb"
)

// brought is one upload's copy of the same content.
type brought struct {
	content.NewContent
	id     drive.BlobID
	reused bool
}

func bring() *brought {
	id := drive.NewID[drive.BlobID]()
	return &brought{NewContent: content.NewContent{ID: id, File: id.String(), Sum: digest.Sum{1}, Size: 5, PartSize: drive.MiB, Parts: []byte{}}}
}

func (b *brought) attach(ctx context.Context, tx *sqldb.Tx) (err error) {
	b.id, b.reused, err = content.Content{}.Attach(ctx, tx, b.NewContent)
	return err
}

func (b *brought) release(ctx context.Context, tx *sqldb.Tx) error {
	return content.Content{}.Release(ctx, tx, drive.AccountID{}, b.id)
}

const blobRefs, releasedFiles = "SELECT refs FROM blobs", "SELECT COUNT(*) FROM released"

// Two concurrent uploads have the same content, and neither sees the other's row. The result is one
// blob with two references, and the loser's file is released.
func TestSameContentAtOnceIsOneBlob(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	a, b := bring(), bring()
	first := d.hold(t, a.attach)
	second := d.write(t, b.attach)
	d.raw.awaitWaiting(t, 1)
	first.commit(t)
	must(t, <-second)
	d.reran(t)
	if a.reused || !b.reused || a.id != b.id {
		t.Fatalf("%v reused %v, %v reused %v", a.id, a.reused, b.id, b.reused)
	}
	d.want(t, blobRefs, "2")
	d.want(t, "SELECT file FROM released", b.File)
}

// The first gives up while two wait for it.
func TestContentWhoseFirstBringerGivesUp(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	a, b, c := bring(), bring(), bring()
	first := d.hold(t, a.attach)
	second := d.write(t, b.attach)
	d.raw.awaitWaiting(t, 1)
	third := d.write(t, c.attach)
	d.raw.awaitWaiting(t, 2)
	first.rollBack(t)
	must(t, errors.Join(<-second, <-third))
	d.reran(t)
	d.want(t, blobRefs, "2")
	d.want(t, releasedFiles, "1")
}

// Content comes again while its last owner lets it go: the look saw a blob that is not there any
// more (B2).
func TestContentComesWhileItGoes(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	a, b := bring(), bring()
	must(t, d.Write(t.Context(), a.attach))
	going := d.hold(t, a.release)
	coming := d.write(t, b.attach)
	d.raw.awaitWaiting(t, 1)
	going.commit(t)
	must(t, <-coming)
	d.reran(t)
	d.want(t, "SELECT CONCAT(id, ' ', refs) FROM blobs", b.ID.String()+" 1")
	d.want(t, "SELECT file FROM released", a.File)
}

// The last owner but one lets go while another reference comes: the row stays (B2).
func TestContentGoesWhileItComes(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	a, b := bring(), bring()
	must(t, d.Write(t.Context(), a.attach))
	coming := d.hold(t, b.attach)
	going := d.write(t, a.release)
	d.raw.awaitWaiting(t, 1)
	coming.commit(t)
	must(t, <-going)
	d.want(t, blobRefs, "1")
}

// Many references are added and removed concurrently. In the end none is left, and each file was
// released once.
func TestContentComesAndGoesInAnyOrder(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	const people, times = 8, 12
	must(t, errors.Join(atOnce(people, func(int) error {
		for range times {
			b := bring()
			if err := d.persist(t, b.attach); err != nil {
				return err
			}
			if err := d.persist(t, b.release); err != nil {
				return err
			}
		}
		return nil
	})...))
	d.want(t, blobRefs)
	wantRows(t, all(t, d.raw, releasedFiles), "96")
}

// persist is Write by a client that repeats a request when told to retry.
func (d drives) persist(t *testing.T, fn func(context.Context, *sqldb.Tx) error) (err error) {
	for range 10 {
		if err = d.Write(t.Context(), fn); !drive.IsKind(err, drive.Unavailable) {
			return err
		}
	}
	return err
}

// let releases a file that the account owes.
func let(t *testing.T, d drives, account drive.AccountID, files ...string) {
	t.Helper()
	must(t, d.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for _, file := range files {
			n := bring().NewContent
			n.File, n.Sum = file, digest.Sum{file[0]}
			id, _, err := content.Content{}.Attach(ctx, tx, n)
			if err == nil {
				err = content.Content{}.Release(ctx, tx, account, id)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// Two workers claim released files concurrently. Neither waits, and they get different files.
func TestReleasedFilesAreClaimedWithoutWaiting(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	let(t, d, drive.AccountID{}, "a", "b")
	claim := func(got *string) func(context.Context, *sqldb.Tx) error {
		return func(ctx context.Context, tx *sqldb.Tx) error {
			*got = ""
			files, _, err := content.Content{}.ClaimReleased(ctx, tx, content.Claim{Hold: time.Hour, Limit: 1})
			for _, f := range files {
				*got += f.File
			}
			return err
		}
	}
	var one, other, third string
	first := d.hold(t, claim(&one))
	must(t, d.Write(t.Context(), claim(&other)))
	must(t, d.Write(t.Context(), claim(&third)))
	first.commit(t)
	if one == other || len(one+other) != 2 || third != "" {
		t.Errorf("claimed %q, %q and %q", one, other, third)
	}
}

// Q6: two workers forget the same file concurrently. Its owed bytes are returned once.
func TestConcurrentForgetReturnsBytesOnce(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	account := drive.NewID[drive.AccountID]()
	let(t, d, account, "a", "b")
	forget := func(ctx context.Context, tx *sqldb.Tx) error {
		return content.Content{}.DeleteReleased(ctx, tx, []string{"a"})
	}
	first := d.hold(t, forget)
	second := d.write(t, forget)
	d.raw.awaitWaiting(t, 1)
	first.commit(t)
	must(t, <-second)
	d.want(t, "SELECT size FROM owed", "5")
	d.want(t, "SELECT file FROM released", "b")
}
