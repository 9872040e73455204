package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

func TestStartReportsAllFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		late := component{"late", func(context.Context) error {
			if tries++; tries < 4 {
				return drive.Fail(drive.Unavailable)
			}
			return nil
		}}
		wrong := component{"Redis", func(context.Context) error { return errors.New("maxmemory-policy is allkeys-lru\nversion is 6") }}
		down := component{"S3", func(context.Context) error { return drive.Wrap(errors.New("connection refused"), drive.Unavailable) }}
		begun := time.Now()
		err := startAll(t.Context(), []component{late, wrong, down}, 30*time.Second, silent)
		var failed *StartError
		if !errors.As(err, &failed) || !failed.Configuration() || tries != 4 {
			t.Fatalf("%v after %d tries", err, tries)
		}
		want := "Redis: maxmemory-policy is allkeys-lru\nRedis: version is 6\nS3: unavailable: connection refused"
		if err.Error() != want {
			t.Errorf("it says\n%s", err)
		}
		if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("it waited %v", took)
		}
		err = startAll(t.Context(), []component{down}, 0, silent)
		if !errors.As(err, &failed) || failed.Configuration() {
			t.Errorf("a component that is down is taken for a wrong setting: %v", err)
		}
		if err := startAll(t.Context(), []component{late}, 0, silent); err != nil {
			t.Error(err)
		}
	})
}
