package app

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the tests make databases of their own
	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/test/process"
)

// mysqlDatabase returns the URL of a database of the test's own.
func mysqlDatabase(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(servicetest.URL(t, servicetest.MySQL))
	if err != nil {
		t.Fatal("SMARTDRIVE_TEST_MYSQL is no URL")
	}
	password, _ := u.User.Password()
	server, err := sql.Open("mysql", u.User.Username()+":"+password+"@tcp("+u.Host+")/")
	if err != nil {
		t.Fatal(err)
	}
	name := "app_" + servicetest.Unique()
	if _, err := server.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := errors.Join(sqldbtest.Drop(ctx, server, name), server.Close()); err != nil {
			t.Error(err)
		}
	})
	u.Path = "/" + name
	return u.String()
}

// The second column's database with the first one's directory: one instance at a time, whatever its
// data directory is.
func TestMySQLWithADirectoryIsOneInstance(t *testing.T) {
	t.Parallel()
	db, blobs := mysqlDatabase(t), t.TempDir()
	cfg := testConfig(t, "--db", db, "--blobs", blobs, "--start-wait", "0")
	first, err := Open(t.Context(), cfg, silent)
	if err != nil {
		t.Fatal(err)
	}
	other := testConfig(t, "--db", db, "--blobs", blobs, "--start-wait", "0")
	_, err = Open(t.Context(), other, silent)
	failed, ok := errors.AsType[*StartError](err)
	if !ok || failed.Configuration() || !strings.Contains(err.Error(), "there can only be one") {
		t.Errorf("a second one: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Open(t.Context(), other, silent)
	if err != nil {
		t.Fatalf("after the first has left: %v", err)
	}
	if second.platform.ID != first.platform.ID || second.platform.Generation <= first.platform.Generation {
		t.Errorf("%+v became %+v", first.platform.Installation, second.platform.Installation)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// An administrator's command does not make an installation of a database that has none.
func TestCommandCreatesNoInstallation(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, "--db", mysqlDatabase(t), "--start-wait", "0")
	_, _, err := ConnectControl(t.Context(), cfg, silent)
	if err == nil || !strings.Contains(err.Error(), "there is no installation in the database app_") {
		t.Errorf("got %v", err)
	}
}

// The program refuses to back up a database server, and the error says how to do it instead.
func TestServerDatabaseBackupIsRefused(t *testing.T) {
	t.Parallel()
	a, _, _ := opened(t, "--db", mysqlDatabase(t))
	if _, err := a.console().backup(t.Context(), BackupRequest{Dir: t.TempDir()}); !errors.Is(err, ErrServerDatabase) {
		t.Errorf("backup: %v", err)
	}
	if _, err := Restore(t.Context(), a.platform.cfg, t.TempDir(), false, silent); !errors.Is(err, ErrServerDatabase) {
		t.Errorf("restore: %v", err)
	}
	if _, err := a.housekeeping.runJobs(t.Context(), time.Hour); err != nil {
		t.Errorf("housekeeping: %v", err)
	}
}

// A restored dump is adopted only while no instance is alive. The installation deletes nothing
// until the dump has been checked.
func TestAdoptADatabaseOnAServer(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, "--db", mysqlDatabase(t), "--start-wait", "0")
	a, err := Open(t.Context(), cfg, silent)
	if err != nil {
		t.Fatal(err)
	}
	other := testConfig(t, "--db", cfgURL(cfg), "--blobs", cfg.Blobs, "--start-wait", "0")
	if _, err := Adopt(t.Context(), other, silent); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("beside a living instance: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Adopt(t.Context(), other, silent); err != nil {
		t.Fatal(err)
	}
	if a, err = Open(t.Context(), cfg, silent); err != nil {
		t.Fatal(err)
	}
	if !a.platform.Restored {
		t.Error("it deletes although nothing was checked")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func cfgURL(c config.Config) string { return databaseURL(c.MySQL) }

// clusterArgs are the settings of a cluster of the test's own; all of its instances share them.
func clusterArgs(t *testing.T, broker bool) []string {
	t.Helper()
	where, err := url.Parse(servicetest.URL(t, servicetest.S3))
	if err != nil {
		t.Fatal("SMARTDRIVE_TEST_S3 is no URL")
	}
	name := servicetest.Unique()
	servicetest.EmptyBucket(t, where, name)
	where = where.JoinPath(name)
	args := []string{
		"--db", mysqlDatabase(t), "--redis", servicetest.URL(t, servicetest.Redis), "--blobs", where.String(), "--namespace", name,
		"--start-wait", "2m",
	}
	if broker {
		args = append(args, "--kafka", servicetest.URL(t, servicetest.Kafka))
	}
	return args
}

// Two instances with separate data directories serve one drive. Parts of an upload go to both, a
// download comes from the other instance, and one instance restarts in between. fsck finds nothing
// at the end.
func TestTwoInstancesServeOneDrive(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	for _, broker := range []bool{false, true} {
		t.Run(fmt.Sprintf("kafka=%t", broker), func(t *testing.T) {
			args := clusterArgs(t, broker)
			cfg := []config.Config{testConfig(t, append(args, "--upload-idle", "1s")...), testConfig(t, append(args, "--upload-idle", "1s")...)}
			nodes := []*node{start1(t, cfg[0]), start1(t, cfg[1])}
			token := nodes[0].login(t)
			content := make([]byte, 20<<20)
			_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
			upload2(t, nodes, token, "/both", content)
			upload2(t, nodes[1:], token, "/one", content[1:])
			if status, body := nodes[0].send(t, token, "PUT", "/api/v1/files/small", []byte("a small file")); status != http.StatusCreated {
				t.Fatalf("small: %d %s", status, body)
			}
			for _, n := range nodes {
				n.holds(t, token, "/both", content)
				n.holds(t, token, "/one", content[1:])
				n.holds(t, token, "/small", []byte("a small file"))
			}
			before := nodes[0].platform.Generation
			nodes[0].stop()
			nodes[1].holds(t, token, "/both", content)
			nodes[0] = start1(t, cfg[0])
			if nodes[0].platform.Generation <= before || nodes[0].platform.ID != nodes[1].platform.ID {
				t.Errorf("start %d of %s became %d of %s", before, nodes[1].platform.ID, nodes[0].platform.Generation, nodes[0].platform.ID)
			}
			upload2(t, nodes, token, "/again", content[2:])
			nodes[1].holds(t, token, "/again", content[2:])
			quiet(t, nodes, token)
			told(t, cfg, nodes, token)
			status(t, nodes[0], token)
			findAdmin(t, config.Config{Data: cfg[0].Data}) // a command that is told nothing but the directory
			report, err := nodes[1].console().fsck(t.Context(), fsck.Scope{Deep: true})
			if err != nil || !report.Clean() {
				t.Errorf("fsck: %+v, %v", report, err)
			}
		})
	}
}

// status waits until the administrator's status page reports no problem.
func status(t *testing.T, n *node, token string) {
	t.Helper()
	process.Eventually(t, patience, "all is well", func() error {
		_, body := n.send(t, token, "GET", "/api/v1/admin/status", nil)
		var s rest.Status
		err := json.Unmarshal(body, &s)
		if err != nil || len(s.Instances) != 2 || !s.Instances[0].Alive || !s.Instances[1].Alive || len(s.Leases) == 0 || len(s.Failing) > 0 || s.Timers["purge"] == (timer.DueCounts{}) {
			return fmt.Errorf("%s, %v", body, err)
		}
		return nil
	})
}

// Two installations that share a Redis server without --namespace would fire each other's timers,
// so the second one does not start.
func TestANamespaceBelongsToOneInstallation(t *testing.T) {
	t.Parallel()
	args := clusterArgs(t, false)
	first, err := Open(t.Context(), testConfig(t, args...), silent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	})
	args[1] = mysqlDatabase(t) // another installation
	args[5] = strings.Replace(args[5], "?", "-other?", 1)
	_, err = Open(t.Context(), testConfig(t, args...), silent)
	failed, ok := errors.AsType[*StartError](err)
	if !ok || !failed.Configuration() || !strings.Contains(err.Error(), "choose another --namespace") {
		t.Errorf("got %v", err)
	}
}

// Redis is emptied during an upload: acknowledged parts still exist, the timers are armed again,
// and the upload completes.
func TestRedisIsEmptied(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	args := append(clusterArgs(t, false), "--upload-idle", "2s")
	nodes := []*node{start1(t, testConfig(t, args...)), start1(t, testConfig(t, args...))}
	token := nodes[0].login(t)
	content := make([]byte, 20<<20)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(content)
	id, size := begin(t, nodes[0], token, "/flushed", len(content))
	sendPart(t, nodes[0], token, id, 0, content[:size])
	quietID, _ := begin(t, nodes[1], token, "/quiet", len(content))
	empty(t, nodes[0])
	for n := 1; n*size < len(content); n++ {
		sendPart(t, nodes[n%2], token, id, n, content[n*size:min((n+1)*size, len(content))])
	}
	nodes[1].complete(t, token, id)
	nodes[0].holds(t, token, "/flushed", content)
	parked(t, nodes[0], token, quietID)
	for _, n := range nodes { // each at its own next look
		process.Eventually(t, patience, "the loss is noticed", func() error {
			if n.timers.engine.Losses() == 0 {
				return errors.New("no loss")
			}
			return nil
		})
	}
	report, err := nodes[1].console().fsck(t.Context(), fsck.Scope{Deep: true})
	if err != nil || !report.Clean() {
		t.Errorf("fsck: %+v, %v", report, err)
	}
}

// empty takes all that the installation has in Redis.
func empty(t *testing.T, n *node) {
	t.Helper()
	keys, err := n.platform.shared.journal.Keys(t.Context(), "*"+n.platform.cfg.Namespace+"*").Result()
	if err == nil && len(keys) > 0 {
		err = n.platform.shared.journal.Del(t.Context(), keys...).Err()
	}
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
}

// An instance that another one has declared dead stops by itself and writes nothing more.
func TestAnEndedInstanceStops(t *testing.T) {
	t.Parallel()
	a, err := Open(t.Context(), testConfig(t, "--db", mysqlDatabase(t)), silent)
	if err != nil {
		t.Fatal(err)
	}
	write(t, a, `UPDATE instances SET ended_at = seen_at`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.Run(ctx, "test", nil, func(string) {}); !errors.Is(err, instance.ErrEnded) {
		t.Errorf("it ended with %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// After a dump is restored, the timers in Redis belong to other rows. The next start arms all
// timers again; later starts do not.
func TestTimersAreArmedOnceAndAfterARestoredDump(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, clusterArgs(t, false)...)
	armed := func() (state string) {
		t.Helper()
		a, err := Open(t.Context(), cfg, silent)
		if err != nil {
			t.Fatal(err)
		}
		if state, err = meta.Find(t.Context(), a.platform.db, metaArmed); err != nil {
			t.Error(err)
		}
		if err := errors.Join(a.timers.arm(t.Context()), a.Close()); err != nil {
			t.Fatal(err)
		}
		return state
	}
	if state := armed(); state != "" {
		t.Errorf("before the first start they were armed for %q", state)
	}
	state := armed()
	if state == "" || armed() != state {
		t.Error("a start arms again what nobody lost")
	}
	if _, err := Adopt(t.Context(), cfg, silent); err != nil {
		t.Fatal(err)
	}
	if state := armed(); state != "" {
		t.Error("the timers of other rows are taken for these rows'")
	}
}

// An instance that runs with the settings from before a migration arms timers in the old queue.
// They are armed in the new queue when the migration ends, whatever was armed at the start.
func TestTimersAreArmedWhenAMoveIsOver(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	n := start1(t, testConfig(t, append(clusterArgs(t, false), "--upload-idle", "1h")...))
	if err := n.timers.arm(t.Context()); err != nil { // as at the start, which may not be so far
		t.Fatal(err)
	}
	id, _ := begin(t, n, n.login(t), "/elsewhere", 1<<20)
	key := timer.Key{Kind: timer.Park, ID: uuid.MustParse(id)}
	if err := errors.Join(n.timers.engine.Cancel(t.Context(), key, 1), n.timers.arm(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := n.timers.engine.Show(t.Context(), key); !drive.IsKind(err, drive.NotFound) {
		t.Fatalf("the timer is there: %v", err)
	}
	if err := n.platform.modules.migrated(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.timers.engine.Show(t.Context(), key); err != nil {
		t.Error(err)
	}
}
