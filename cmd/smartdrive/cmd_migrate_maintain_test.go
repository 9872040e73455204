package main

import (
	"strings"
	"testing"

	"example.org/smartdrive/internal/move/migrate"
)

func TestByteRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]byteRate{"0": 0, "20MiB": 20 << 20, "7": 7} {
		var r byteRate
		if err := r.Set(text); err != nil || r != want {
			t.Errorf("%q is %d, %v, want %d", text, r, err, want)
		}
	}
	if err := new(byteRate).Set("fast"); err == nil {
		t.Error(`"fast" is taken`)
	}
}

func TestMigrationTextShowsWaitsAndOldSide(t *testing.T) {
	t.Parallel()
	text := migrationText(migrate.Status{
		State: "running", Phase: migrate.NewOnly, Pace: migrate.Pace{Rows: 5},
		Instances: []migrate.Instance{{ID: 3, Host: "web-2", Why: "the bucket answers 403"}, {ID: 4}},
		Old: &migrate.Old{State: "dropping", Contents: migrate.OldContents{Removed: 2, Bytes: 9, Kept: 1, Worst: "content a"}, Gate: []migrate.Gate{
			{Name: "instances", Detail: "1 of 2"},
		}},
	})
	for _, want := range []string{
		"5 rows/s, any number of bytes/s", "instance 3 on web-2 waits: the bucket answers 403", "old side  dropping", "2 removed, 9 bytes",
		"1 contents stay at the old place, such as: content a", "waits  instances",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "instance 4") {
		t.Error("an instance waits that does not")
	}
}
