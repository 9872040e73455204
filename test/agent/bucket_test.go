package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/client/bucket"
	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

// sender is another program that puts bundles into a bucket.
type sender struct {
	t   *testing.T
	api *minio.Client
	at  *config.S3
	url string
}

func newSender(t *testing.T) *sender {
	t.Helper()
	u, err := url.Parse(servicetest.URL(t, servicetest.S3))
	if err != nil {
		t.Fatal(err)
	}
	prefix := servicetest.Unique()
	servicetest.EmptyBucket(t, u, prefix)
	u.Path += "/" + prefix
	at, err := config.ParseS3(u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	api, err := minio.New(at.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(at.Key, string(at.Secret), ""), Secure: !at.Insecure})
	if err != nil {
		t.Fatal(err)
	}
	return &sender{t, api, at, u.String()}
}

func (s *sender) put(id, name string, content []byte) (key string) {
	s.t.Helper()
	key = strings.Join([]string{s.at.Prefix, source, id, name}, "/")
	if _, err := s.api.PutObject(s.t.Context(), s.at.Bucket, key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{}); err != nil {
		s.t.Fatal(err)
	}
	return key
}

// manifest names one member with one document.
func (s *sender) manifest(id string, member []byte) []byte {
	s.t.Helper()
	sum := sha256.Sum256(member)
	m := bundle.Manifest{Schema: bundle.Schema, ID: id, Source: source, CreatedAt: time.Now(), Members: []bundle.Member{
		{Name: "invoice.xml", Size: int64(len(member)), SHA256: hex.EncodeToString(sum[:]), Documents: 1},
	}}
	raw, err := m.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

func TestBundlesOfABucketAreForwarded(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the server is stopped by signals")
	}
	s := newSender(t)
	h := &house{
		t: t, binary: process.Binary(t), data: filepath.Join(t.TempDir(), "data"), listen: process.Address(t), messages: new(rig.Log), rnd: rand.New(rand.NewPCG(1, 3)),
	}
	t.Cleanup(h.end)
	h.serve()
	h.login()

	whole, unsealed, partial, wrong, broken := bundle.NewID(), bundle.NewID(), bundle.NewID(), bundle.NewID(), bundle.NewID()
	invoices := [][]byte{invoicetest.UBL(invoicetest.New(1)), invoicetest.UBL(invoicetest.New(2)), invoicetest.UBL(invoicetest.New(3)), invoicetest.UBL(invoicetest.New(4))}
	s.put(whole, "invoice.xml", invoices[0])
	s.put(whole, "meta.json", s.manifest(whole, invoices[0]))
	s.put(unsealed, "invoice.xml", invoices[1])
	s.put(partial, "meta.json", s.manifest(partial, invoices[2]))
	s.put(wrong, "invoice.xml", bytes.ToUpper(invoices[3]))
	s.put(wrong, "meta.json", s.manifest(wrong, invoices[3]))
	s.put(broken, "meta.json", []byte("{"))

	h.forward(s, 7, bucket.Counts{Forwarded: 2, Waiting: 1, Failed: 1}) // whole and broken; partial; wrong
	s.put(unsealed, "meta.json", s.manifest(unsealed, invoices[1]))
	s.put(partial, "invoice.xml", invoices[2])
	s.put(wrong, "invoice.xml", invoices[3])
	h.forward(s, 0, bucket.Counts{Forwarded: 3})
	h.forward(s, 0, bucket.Counts{})
	h.bundles(map[string]string{whole: "done", unsealed: "done", partial: "done", wrong: "done", broken: "rejected"})
	if shown := h.documents(); len(shown) != 4 {
		t.Errorf("%d documents are shown: %v", len(shown), shown)
	}

	again := h.api()
	folder, err := again.NodeAt(t.Context(), bundle.Folder(source, whole).String())
	if err == nil {
		err = again.DeleteNode(t.Context(), folder.ID, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.forward(s, 0, bucket.Counts{}) // what its owner has deleted does not come back
}

// forward runs the command once.
func (h *house) forward(s *sender, exit int, want bucket.Counts) {
	h.t.Helper()
	cmd := exec.Command(h.binary, "agent", "bucket", s.url, "--once", "--json")
	cmd.Env = append(process.Environ(), "SMARTDRIVE_SERVER=http://"+h.listen, "SMARTDRIVE_TOKEN="+h.token)
	cmd.Stderr = h.messages
	out, err := cmd.Output()
	if got, err := process.Exit(err); err != nil || got != exit {
		h.t.Fatalf("exit code %d (%v), want %d", got, err, exit)
	}
	var got bucket.Counts
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&got); err != nil || got != want {
		h.t.Fatalf("it forwarded %+v (%v), want %+v", got, err, want)
	}
}

// bundles waits until the server has ended with all bundles, in these states.
func (h *house) bundles(want map[string]string) {
	h.t.Helper()
	process.Eventually(h.t, time.Minute, "the bundles end", func() error {
		got := map[string]string{}
		for b, err := range h.api().AllBundles(h.t.Context(), url.Values{"source": {source}}) {
			if err != nil {
				return err
			}
			got[b.SenderID] = b.State
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("they are %v, not %v", got, want)
		}
		return nil
	})
}

// An event notification in Kafka forwards a bundle, though the next listing is an hour away.
func TestAnEventForwardsABundle(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the server is stopped by signals")
	}
	s := newSender(t)
	brokers, topic := strings.Split(servicetest.URL(t, servicetest.Kafka), ","), servicetest.Unique()
	producer, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.UnknownTopicRetries(100)) // a broker may not know a new topic yet
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	if _, err := kadm.NewClient(producer).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	h := &house{
		t: t, binary: process.Binary(t), data: filepath.Join(t.TempDir(), "data"), listen: process.Address(t), messages: new(rig.Log), rnd: rand.New(rand.NewPCG(1, 4)),
	}
	t.Cleanup(h.end)
	h.serve()
	h.login()
	f, err := bucket.New(bucket.Options{
		Client: h.api(), Bucket: *s.at, Every: time.Hour, Brokers: brokers, Topic: topic, Group: topic, Log: slog.New(slog.NewTextHandler(h.messages, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	listed, id, content := bundle.NewID(), bundle.NewID(), invoicetest.UBL(invoicetest.New(1))
	s.put(listed, "invoice.xml", content)
	s.put(listed, "meta.json", s.manifest(listed, content))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	h.bundles(map[string]string{listed: "done"}) // the only listing has been read by now: the next bundle is not in it

	s.put(id, "invoice.xml", content)
	key := s.put(id, "meta.json", s.manifest(id, content))
	event := fmt.Sprintf(`{"Records":[{"eventVersion":"2.1","eventName":"ObjectCreated:Put","s3":{"bucket":{"name":%q},"object":{"key":%q}}}]}`,
		s.at.Bucket, url.QueryEscape(key))
	for _, value := range []string{"no JSON", `{"Records":[{"eventName":"ObjectRemoved:Delete"}]}`, event, event} {
		if err := producer.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	h.bundles(map[string]string{listed: "done", id: "done"})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
