package export

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// sends creates a schedule for the bucket.
func (w *world) sends(t *testing.T, e *Exports) Schedule {
	t.Helper()
	s, err := e.CreateSchedule(t.Context(), w.who, Schedule{Folder: w.folder(t, "/in"), Filter: Filter{Ext: []string{"pdf"}}, Bucket: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// month makes the next month of a schedule due, and returns its batch.
func (w *world) month(t *testing.T, e *Exports, s *Schedule) drive.ExportID {
	t.Helper()
	w.clock.Store(int64(dueAt(s.month, time.UTC)))
	s.month++
	if err := e.calendar.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := e.List(t.Context(), w.who, drive.ExportID{}, 1)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d batches: %v", len(all), err)
	}
	return all[0].ID
}

// Each month has one object in the bucket, wherever the sealing worker crashes.
func TestScheduleSendsZipsToBucket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "/in/nov.pdf", "november")
	r := newMemoryBucket()
	e := w.bucketWorker(r, "a")
	s := w.sends(t, e)
	for at := int64(1); ; at += 2 {
		id := w.month(t, e, &s)
		died := w.crashesAt(t, at, func(dead *Exports) {
			if b, err := dead.queue.claim(t.Context()); err == nil && b != nil {
				dead.workers.work(t.Context(), b)
			}
		}, withBucket(r))
		w.advance(lease.TTL + time.Second)
		heir := w.bucketWorker(r, fmt.Sprint("heir", at))
		w.finish(t, heir)
		if err := heir.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		jobs, err := heir.Jobs(t.Context(), w.who, id)
		if err != nil || len(jobs) != 1 || jobs[0].State != "done" {
			t.Fatalf("killed at call %d: its jobs are %+v: %v", at, jobs, err)
		}
		if want, _ := w.download(t, heir, id); !bytes.Equal(r.objects[jobs[0].Object], want) {
			t.Fatalf("killed at call %d: %d bytes of %d are in the bucket", at, len(r.objects[jobs[0].Object]), len(want))
		}
		if err := heir.Cancel(t.Context(), w.who, id); err != nil {
			t.Fatal(err)
		}
		if !died {
			return
		}
	}
}

// A batch is sealed even if the bucket is full or not configured.
func TestBatchIsSealedWithoutBucketJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "/in/nov.pdf", "november")
	none := w.process(w.db, "none")
	in := Schedule{Folder: w.folder(t, "/in"), Bucket: true}
	if _, err := none.CreateSchedule(t.Context(), w.who, in); !drive.IsKind(err, drive.Forbidden) {
		t.Errorf("a schedule for a bucket that there is not: %v", err)
	}
	r := newMemoryBucket()
	e := w.bucketWorker(r, "a")
	s := w.sends(t, e)
	all, err := e.Schedules(t.Context(), w.who)
	if err != nil || len(all) != 1 || !all[0].Bucket || len(all[0].Filter.Ext) != 1 {
		t.Errorf("the schedules are %+v: %v", all, err)
	}
	w.limit(t, 8)
	for _, p := range []*Exports{e, none} {
		id := w.month(t, e, &s)
		w.finish(t, p)
		if v := w.get(t, e, id); v.State != Sealed {
			t.Errorf("it is %s: %s", v.State, v.Error)
		}
		if jobs, err := e.Jobs(t.Context(), w.who, id); err != nil || len(jobs) != 0 {
			t.Errorf("its jobs are %+v: %v", jobs, err)
		}
		if p == e { // only the quota is missing
			w.limit(t, drive.MiB)
		}
	}
	id := w.month(t, e, &s)
	if err := e.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if jobs, err := e.Jobs(t.Context(), w.who, id); err != nil || len(jobs) != 1 || jobs[0].State != "done" || len(r.objects) != 1 {
		t.Errorf("with room its jobs are %+v: %v", jobs, err)
	}
}

// The zip of a month is an object in S3 and is deleted with its batch.
func TestMonthlyZipInS3(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(servicetest.URL(t, servicetest.S3))
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := u.User.Password()
	at := s3.Options{
		Endpoint: u.Host, Bucket: strings.Trim(u.Path, "/"), Prefix: servicetest.Unique(), AccessKey: u.User.Username(), SecretKey: secret,
		Insecure: u.Query().Get("insecure") == "true", SpoolDir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	}
	servicetest.EmptyBucket(t, u, at.Prefix)
	bucket, err := s3.New(at)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := minio.New(u.Host, &minio.Options{Creds: credentials.NewStaticV4(at.AccessKey, at.SecretKey, ""), Secure: !at.Insecure})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.put(t, "/in/nov.pdf", "november")
	e := w.process(w.db, "a", func(o *Options) { o.Bucket = bucket.Objects() })
	s := w.sends(t, e)
	id := w.month(t, e, &s)
	if err := e.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	jobs, err := e.Jobs(t.Context(), w.who, id)
	if err != nil || len(jobs) != 1 || jobs[0].State != "done" {
		t.Fatalf("its jobs are %+v: %v", jobs, err)
	}
	key := at.Prefix + "/exports/" + jobs[0].Object
	object, err := reader.GetObject(t.Context(), at.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	got, err := io.ReadAll(object)
	if want, _ := w.download(t, e, id); err != nil || !bytes.Equal(got, want) {
		t.Errorf("in the bucket are %d bytes of %d: %v", len(got), len(want), err)
	}
	if err := e.Cancel(t.Context(), w.who, id); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.StatObject(t.Context(), at.Bucket, key, minio.StatObjectOptions{}); minio.ToErrorResponse(err).Code != minio.NoSuchKey {
		t.Errorf("the object has outlived its batch: %v", err) //nolint:errorlint // there may be none
	}
}
