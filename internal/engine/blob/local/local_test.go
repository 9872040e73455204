package local

import (
	"log/slog"
	"testing"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// openTestDir returns a Dir over a new directory, closed at the end of the test.
func openTestDir(t testing.TB, change ...func(*Options)) *Dir {
	t.Helper()
	o := Options{Dir: t.TempDir(), BootID: "boot 1", Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	d, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func durable(o *Options) { o.Durability = DurabilityPart }

func TestStore(t *testing.T) {
	t.Parallel()
	blobtest.RunStore(t, func(t *testing.T) blob.Store { return openTestDir(t).Blobs })
}

func TestStaging(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"process": func(*Options) {}, "part": durable,
		"without room for buffers": func(o *Options) { o.BufferMemory = 1 },
		"at the dirty limit":       func(o *Options) { o.DirtyLimit = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobtest.RunStaging(t, func(t *testing.T) blob.Staging { return openTestDir(t, change).Staging })
		})
	}
}

func TestSealer(t *testing.T) {
	t.Parallel()
	blobtest.RunSealer(t, func(t *testing.T) (blob.Staging, blob.Store) {
		d := openTestDir(t)
		return d.Staging, d.Blobs
	})
}

func TestTailer(t *testing.T) {
	t.Parallel()
	durable := func(o *Options) { o.Durability = DurabilityPart }
	for name, change := range map[string]func(*Options){"process": func(*Options) {}, "part": durable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobtest.RunTails(t, func(t *testing.T) (blob.Staging, blob.Store) {
				d := openTestDir(t, change)
				return d.Staging, d.Blobs
			})
		})
	}
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	blobtest.RunQuarantine(t, func(t *testing.T) (blob.Store, blob.Quarantine) {
		d := openTestDir(t)
		return d.Blobs, d.Quarantine
	})
}
