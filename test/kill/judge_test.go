package kill

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // to see when nothing is left to do

	"example.org/smartdrive/test/process"
)

// judgeMidway pauses all clients, compares their state with the server's, kills the server, and
// runs the checker on its data directory.
func (l *loop) judgeMidway() {
	l.t.Helper()
	l.turns.Lock()
	defer l.turns.Unlock()
	l.compare()
	if l.t.Failed() {
		return
	}
	l.kill()
	l.check()
	l.start()
	l.awaitReady()
}

// compare compares the running server with the state that the clients expect.
func (l *loop) compare() {
	l.t.Helper()
	ctx := l.t.Context()
	for _, c := range l.clients {
		for path, f := range c.files {
			if n := c.look(ctx, path); n == nil || n.ID != f.node || n.Digests["blake3"] != c.digests.of(f.last()) {
				c.fail("%s should be node %s with %d bytes (seed %d), the server says %+v", path, f.node, f.last().Size, f.last().Seed, n)
			}
		}
		for _, f := range c.trash {
			if n := c.lookNode(ctx, f.node); n == nil || n.TrashedAt == nil {
				c.fail("%s (node %s) should be in the trash, the server says %+v", f.path, f.node, n)
			}
		}
		for _, u := range slices.Clone(c.uploads) {
			c.lookUpload(ctx, u)
		}
	}
	for _, u := range l.users {
		l.compareLedger(ctx, u)
	}
}

// compareLedger checks that a user is charged for the versions of their files, trash included, and
// nothing else as finished (Q1).
func (l *loop) compareLedger(ctx context.Context, u *user) {
	l.t.Helper()
	var want int64
	for _, c := range l.clients {
		if c.user != u {
			continue
		}
		all := slices.Clone(c.trash)
		for _, f := range c.files {
			all = append(all, f)
		}
		for _, f := range all {
			for _, content := range f.contents {
				want += content.Size
			}
		}
	}
	ledger, err := into[struct{ Total, Finished, Unfinished, Reserved int64 }](l.admin.send(ctx, request{method: "GET", path: "/admin/users/" + u.id + "/ledger"}))
	if err != nil {
		l.fail(nil, "ask for the ledger of %s: %v", u.name, err)
	}
	if ledger.Finished != want || ledger.Total != u.total || ledger.Finished+ledger.Unfinished+ledger.Reserved > u.total {
		l.fail(nil, "the ledger of %s is %+v; its files have %d bytes, its total is %d", u.name, ledger, want, u.total)
	}
}

// check runs the independent checker and returns how many leftovers it counts.
func (l *loop) check(flags ...string) (leftovers int) {
	l.t.Helper()
	args := append(flags, "-abandon", abandon.String(), l.data, filepath.Join(l.dir, "server.log"))
	for _, c := range l.clients {
		args = append(args, filepath.Join(l.dir, c.name+".log"))
	}
	var out, messages bytes.Buffer
	cmd := exec.Command(l.checker, args...)
	cmd.Stdout, cmd.Stderr = &out, &messages
	if code, err := process.Exit(cmd.Run()); err != nil || code != 0 {
		l.fail(nil, "the checker ends with %d (%v):\n%s%s", code, err, out.String(), messages.String())
		return 0
	}
	last := out.String()[strings.LastIndex(strings.TrimSpace(out.String()), "\n")+1:]
	if _, err := fmt.Sscanf(last[strings.Index(last, "leftovers: "):], "leftovers: %d", &leftovers); err != nil {
		l.t.Fatalf("the checker said %q: %v", last, err)
	}
	return leftovers
}

// judgeEnd waits until the server has no work left, compares webhooks with the log, stops the
// server, and runs the checker and fsck.
func (l *loop) judgeEnd() {
	l.t.Helper()
	l.compare()
	process.Eventually(l.t, 2*patience, "all uploads are given up, released files deleted and webhooks sent", l.quiet)
	l.compare()
	l.compareEars()
	code, err := l.server.Stop(patience)
	if err != nil || code != 0 {
		l.fail(nil, "SIGTERM ended the server with %d: %v\n%s", code, err, l.messages())
	}
	if said := l.server.Said(); len(said) != 1 {
		l.fail(nil, "standard output is %q, not one line", said)
	}
	if l.t.Failed() {
		return
	}
	l.fsck(l.check())
}

// quiet returns an error that names the server's remaining work, nil if there is none.
func (l *loop) quiet() error {
	db, err := l.openDatabase()
	if err != nil {
		return err
	}
	defer db.Close()
	var open, released, running, untold int
	err = db.QueryRow(`SELECT (SELECT COUNT(*) FROM uploads WHERE state NOT IN ('done', 'gone')), (SELECT COUNT(*) FROM released),
		(SELECT COUNT(*) FROM operations WHERE state = 'running'),
		(SELECT COUNT(*) FROM webhooks w JOIN activity a ON a.account_id = w.account_id AND a.id > w.position)`).Scan(&open, &released, &running, &untold)
	if err == nil && open+released+running+untold > 0 {
		err = fmt.Errorf("%d uploads are open, %d files released, %d operations running, %d events not told", open, released, running, untold)
	}
	return err
}

// openDatabase opens the server's database to read it.
func (l *loop) openDatabase() (*sql.DB, error) {
	name := url.URL{Scheme: "file", Path: filepath.Join(l.data, "smartdrive.db"), RawQuery: "mode=ro"}
	return sql.Open("sqlite", name.String())
}

// fsck must agree with the checker: leftovers of kills are no findings, and are counted; a repair
// deletes them; then both find nothing.
func (l *loop) fsck(leftovers int) {
	l.t.Helper()
	code, out := l.operate("fsck")
	if told := strings.Contains(out, " leftovers of processes that died"); code != 0 || told != (leftovers > 0) {
		l.fail(nil, "the checker counts %d leftovers, fsck ends with %d:\n%s", leftovers, code, out)
		return
	}
	if code, out := l.operate("fsck", "--repair"); code != 0 {
		l.fail(nil, "fsck --repair ends with %d:\n%s", code, out)
	}
	if code, out := l.operate("fsck"); code != 0 {
		l.fail(nil, "after a repair fsck ends with %d:\n%s", code, out)
	}
	l.check("-strict")
}

// operate runs an admin command on the data directory.
func (l *loop) operate(args ...string) (code int, out string) {
	l.t.Helper()
	cmd := exec.Command(l.binary, append(append([]string{"admin"}, args...), "--data", l.data)...)
	cmd.Env = append(process.Environ(), "HOME="+l.dir)
	b, err := cmd.CombinedOutput()
	code, err = process.Exit(err)
	if err != nil {
		l.t.Fatalf("admin %s: %v", strings.Join(args, " "), err)
	}
	if err := os.WriteFile(filepath.Join(l.dir, "fsck.out"), b, 0o600); err != nil {
		l.t.Fatal(err)
	}
	return code, string(b)
}
