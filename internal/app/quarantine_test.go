package app

import (
	"bytes"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/fsck"
)

// A repair moves foreign objects in the bucket to quarantine. Every check counts them, as it does
// in a directory, and an administrator deletes them and nothing else.
func TestTheQuarantineOfABucket(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	cfg := testConfig(t, clusterArgs(t, false)...)
	n := start1(t, cfg)
	token := n.login(t)
	if status, body := n.send(t, token, "PUT", "/api/v1/files/kept", []byte("kept")); status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	plant(t, cfg, "blobs/ab/holiday.jpg", "a foreign object")
	size := drive.ByteSize(len("a foreign object"))

	report, err := n.console().fsck(t.Context(), fsck.Scope{})
	if err != nil || report.Total != 1 || report.Quarantine != (fsck.Tally{}) {
		t.Fatalf("before the repair: %+v, %v", report, err)
	}
	if report, err = n.console().fsck(t.Context(), fsck.Scope{Repair: true}); err != nil || !report.Clean() || report.Repaired != 1 {
		t.Fatalf("the repair: %+v, %v", report, err)
	}
	if report, err = n.console().fsck(t.Context(), fsck.Scope{}); err != nil || report.Total != 0 || report.Quarantine != (fsck.Tally{Count: 1, Bytes: size}) {
		t.Errorf("after it: %+v, %v", report, err)
	}
	if items, err := n.auditor.ListQuarantine(t.Context()); err != nil || len(items) != 1 || items[0].Name != "blobs_ab_holiday.jpg" {
		t.Errorf("in quarantine: %+v, %v", items, err)
	}
	for _, want := range []fsck.Tally{{Count: 1, Bytes: size}, {}} {
		if gone, err := n.console().purgeQuarantine(t.Context(), PurgeRequest{}); err != nil || gone != want {
			t.Errorf("purged %+v, %v, want %+v", gone, err, want)
		}
	}
	if report, err = n.console().fsck(t.Context(), fsck.Scope{Deep: true}); err != nil || report.Total != 0 || report.Quarantine != (fsck.Tally{}) {
		t.Errorf("at the end: %+v, %v", report, err)
	}
	n.holds(t, token, "/kept", []byte("kept"))
}

// plant puts an object below the prefix of an installation, past it.
func plant(t *testing.T, cfg config.Config, key, text string) {
	t.Helper()
	o := cfg.S3
	api, err := minio.New(o.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(o.Key, string(o.Secret), ""), Secure: !o.Insecure, Region: o.Region,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.PutObject(t.Context(), o.Bucket, o.Prefix+"/"+key, bytes.NewReader([]byte(text)), int64(len(text)), minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
