package local

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// BenchmarkWrite sends 256 MiB in parts of 8 MiB in random order from 4 goroutines, and writes the
// same bytes with plain WriteAt. "ratio" is the quotient of the two rates.
func BenchmarkWrite(b *testing.B) {
	for name, change := range map[string]func(*Options){"process": func(*Options) {}, "part": durable} {
		b.Run(name, func(b *testing.B) {
			d := openTestDir(b, change)
			ref := blob.Ref{Begun: blobtest.Begun, PartSize: 8 * drive.MiB, Size: 256 * drive.MiB}
			part := blobtest.Bytes(1, ref.PartSize)
			b.SetBytes(int64(ref.Size))
			var ours, plain time.Duration
			for b.Loop() {
				write, done := plainWriter(b, d, part)
				plain += inParallel(b, write)
				done()
				ref.ID = drive.NewID[drive.UploadID]()
				noError(b, d.Staging.Create(b.Context(), ref))
				ours += inParallel(b, func(n int) error {
					body := blob.NewBody(bytes.NewReader(part), blob.BodyOptions{
						N: n, Offset: drive.ByteSize(n) * ref.PartSize, Size: ref.PartSize,
					})
					_, err := d.Staging.Write(b.Context(), ref, blob.Write{N: n, Gen: 1, Size: ref.PartSize}, body)
					return err
				})
				noError(b, d.Staging.Remove(b.Context(), ref))
			}
			b.ReportMetric(float64(ref.Size)*float64(b.N)/ours.Seconds()/1e6, "write-MB/s")
			b.ReportMetric(float64(ref.Size)*float64(b.N)/plain.Seconds()/1e6, "plain-MB/s")
			b.ReportMetric(plain.Seconds()/ours.Seconds(), "ratio")
		})
	}
}

// inParallel calls send for 32 parts in random order from 4 goroutines and returns how long it
// took.
func inParallel(b *testing.B, send func(n int) error) time.Duration {
	parts := make(chan int, 32)
	for _, n := range rand.Perm(cap(parts)) {
		parts <- n
	}
	close(parts)
	start := time.Now()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := range parts {
				if err := send(n); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

// plainWriter returns a function that writes a part like a server without journal and hashes: in
// pieces of 1 MiB to a new file.
func plainWriter(b *testing.B, d *Dir, part []byte) (write func(n int) error, done func()) {
	path := filepath.Join(d.root, "plain")
	f, err := os.Create(path)
	noError(b, err)
	done = func() {
		noError(b, f.Close())
		noError(b, os.Remove(path))
	}
	write = func(n int) error {
		buf := make([]byte, largeBuffer)
		for off := 0; off < len(part); off += len(buf) {
			copy(buf, part[off:])
			if _, err := f.WriteAt(buf, int64(n*len(part)+off)); err != nil {
				return err
			}
		}
		return nil
	}
	return write, done
}

func BenchmarkJournalAppend(b *testing.B) {
	d := openTestDir(b)
	ref := blobtest.NewRef(blob.UnknownSize)
	noError(b, d.Staging.Create(b.Context(), ref))
	u, err := d.Staging.acquire(ref)
	noError(b, err)
	for n := 0; b.Loop(); n++ {
		_, err := u.appendPart(blob.Part{N: n % 10_000, Size: drive.MiB}, kindPart, 1, false)
		noError(b, err)
	}
}

// BenchmarkSeal seals 1 GiB without allocated blocks, so that the disk's rate is not measured.
func BenchmarkSeal(b *testing.B) {
	d := openTestDir(b)
	ref := blob.Ref{Begun: blobtest.Begun, PartSize: 8 * drive.MiB, Size: drive.GiB}
	for b.Loop() {
		b.StopTimer()
		ref.ID = drive.NewID[drive.UploadID]()
		noError(b, d.Staging.Create(b.Context(), ref))
		u, err := d.Staging.acquire(ref)
		noError(b, err)
		for n := range 128 {
			_, err = u.appendPart(blob.Part{N: n, Size: ref.PartSize}, kindPart, 1, false)
			noError(b, err)
		}
		b.StartTimer()
		noError(b, d.Staging.Seal(b.Context(), ref, ref.Size))
		b.StopTimer()
		d.Staging.release(u)
		noError(b, d.Staging.Remove(b.Context(), ref))
		b.StartTimer()
	}
}
