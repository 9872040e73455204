package kill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
)

// What the server is started with: short times, so that parking, reclaiming and unlinking happen
// between kills.
const (
	idle    = 300 * time.Millisecond
	abandon = 2 * time.Second
	grace   = time.Second

	mib           = 1 << 20
	adminPassword = process.Password
	startLimit    = 2 * time.Minute // on a busy machine; it takes well under a second
)

// loop is one run.
type loop struct {
	t       *testing.T
	seed    int64
	rand    *rand.Rand
	binary  string
	checker string
	dir     string // kept when the test fails
	data    string
	log     *history.Log // the server's life
	stderr  *os.File

	listen string
	server *process.Server
	gate   *gate
	admin  *wire

	// turns is held for reading while a client does one thing, for writing while all pause.
	turns   sync.RWMutex
	clients []*client
	users   []*user
	ears    []*ear
	kills   int
	early   int
	life    int64

	failing sync.Mutex
	failed  bool
}

// user is an account with a quota, shared by some clients.
type user struct {
	name, id, token string
	total           int64
}

// newLoop starts a server on an empty directory, with users and their clients.
func newLoop(t *testing.T, seed int64) *loop {
	t.Helper()
	dir, err := os.MkdirTemp("", "smartdrive-kill-") //nolint:usetesting // kept when the test fails
	if err != nil {
		t.Fatal(err)
	}
	l := &loop{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(uint64(seed), 0)), binary: process.Binary(t),
		checker: process.Build(t, "example.org/smartdrive/test/check"), dir: dir, data: filepath.Join(dir, "data"),
		listen: "127.0.0.1:0", gate: newGate(),
	}
	l.admin = newWire(l.gate, "")
	if l.log, err = history.Create(filepath.Join(dir, "server.log")); err != nil {
		t.Fatal(err)
	}
	if l.stderr, err = os.Create(filepath.Join(dir, "stderr")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.cleanUp)
	l.start()
	l.awaitReady()
	l.admin.token = l.admin.login(t, "admin", adminPassword)
	for i, total := range []int64{120 * mib, 40 * mib, 300 * mib} {
		u := &user{name: fmt.Sprintf("user%d", i), total: total}
		u.id = l.admin.createUser(t, u.name, "password of "+u.name, total)
		u.token = l.admin.login(t, u.name, "password of "+u.name)
		l.users = append(l.users, u)
		l.ears = append(l.ears, l.newEar(u))
	}
	for i := range 5 {
		l.clients = append(l.clients, newClient(l, l.users[i%len(l.users)], i))
	}
	return l
}

func (l *loop) cleanUp() {
	if l.server != nil {
		l.server.Kill()
	}
	if l.t.Failed() {
		l.t.Logf("seed %d; data, logs and the server's messages are kept in %s", l.seed, l.dir)
		return
	}
	if err := os.RemoveAll(l.dir); err != nil {
		l.t.Error(err)
	}
}

// start starts the server and does not wait for it.
func (l *loop) start() {
	l.life++
	l.log.Write(history.Record{Op: l.life, Phase: history.Intent, Do: history.Ready})
	fmt.Fprintf(l.stderr, "--- life %d, after %d kills\n", l.life, l.kills)
	server, err := process.Start(process.Options{
		Binary: l.binary, Data: l.data, Listen: l.listen, Log: l.stderr, Env: []string{"SMARTDRIVE_ADMIN_PASSWORD=" + adminPassword},
		Args: []string{
			"--upload-idle", idle.String(), "--upload-abandon", abandon.String(), "--blob-grace", grace.String(), "--part-size", "1MiB",
			"--min-free", "64MiB", "--log-level", "info", "--webhook-addresses", "any",
		},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.server = server
}

// awaitReady waits until the server is ready and lets the clients continue. The server keeps its
// port unless another process has taken it.
func (l *loop) awaitReady() {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	url, err := l.server.Ready(ctx)
	if err != nil && l.portTaken() {
		l.listen = "127.0.0.1:0"
		l.start()
		url, err = l.server.Ready(ctx)
	}
	if err != nil {
		l.t.Fatalf("after %d kills: %v; the end of its messages:\n%s", l.kills, err, l.messages())
	}
	l.listen = strings.TrimPrefix(url, "http://")
	l.log.Write(history.Record{Op: l.life, Phase: history.Done, Do: history.Ready})
	l.gate.open(url)
}

func (l *loop) messages() string {
	b, err := os.ReadFile(l.stderr.Name())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

func (l *loop) portTaken() bool {
	text := l.messages()
	last := text[max(0, strings.LastIndex(text, "--- life")):]
	return strings.Contains(last, "--listen") && strings.Contains(last, "address already in use")
}

// kill sends SIGKILL to the server. Requests without a reply fail.
func (l *loop) kill() {
	l.gate.shut()
	l.server.Kill()
	l.kills++
}

// run kills until it is enough, with judgements in between and one at the end.
func (l *loop) run(kills int) {
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	for _, c := range l.clients {
		working.Go(func() { c.run(ctx) })
	}
	defer working.Wait()
	defer cancel()
	for l.more(kills) && !l.t.Failed() {
		l.oneLife()
		if l.kills%perCheck == 0 && !l.t.Failed() {
			l.judgeMidway()
		}
	}
	l.turns.Lock() // every client ends its turn with a live server
	cancel()
	l.turns.Unlock()
	working.Wait()
	if !l.t.Failed() {
		l.judgeEnd()
	}
}

// more reports whether there is another kill: as many as were asked for, and where these are enough
// for everything to happen, up to as many again until it has. On a slow machine less happens in a
// life.
func (l *loop) more(kills int) bool {
	if l.kills < kills {
		return true
	}
	if kills < deepKills || l.kills >= 2*kills {
		return false
	}
	l.turns.Lock()
	defer l.turns.Unlock()
	return len(l.missed()) > 0
}

// oneLife lets the server run for a while, kills it and starts it again. Some lives end before the
// server is ready, a few are long enough for uploads to be given up.
func (l *loop) oneLife() {
	l.t.Helper()
	live := time.Duration(l.rand.Int64N(int64(400 * time.Millisecond)))
	if l.rand.IntN(100) < 3 {
		live += 2 * time.Second
	}
	<-time.After(live)
	l.kill()
	l.start()
	for l.rand.IntN(100) < 15 {
		select {
		case <-time.After(time.Duration(l.rand.Int64N(int64(80 * time.Millisecond)))):
			l.early++
		case <-l.server.Ended():
		}
		l.kill()
		l.start()
	}
	l.awaitReady()
}

// fail reports a violation with the client's log. Only the first one is reported, because others
// follow from it.
func (l *loop) fail(c *client, format string, args ...any) {
	l.failing.Lock()
	defer l.failing.Unlock()
	if l.failed {
		return
	}
	l.failed = true
	trace := ""
	if c != nil {
		trace = fmt.Sprintf("\nthe last operations of client %s (%s):\n  %s", c.name, c.user.name, strings.Join(c.log.Recent(), "\n  "))
	}
	l.t.Errorf("seed %d, after %d kills: %s%s", l.seed, l.kills, fmt.Sprintf(format, args...), trace)
}

// exercised fails when something that the loop is for has never happened: then it has shown nothing
// about it.
func (l *loop) exercised() {
	l.t.Helper()
	for _, what := range l.missed() {
		l.t.Errorf("in %d kills there was no %q: %s", l.kills, what, l.counts())
	}
}

// missed lists the events that the loop must cause and has not caused.
func (l *loop) missed() (list []string) {
	total := l.total()
	for _, what := range []string{
		"put", "put unsure", "put torn", "begin", "begin unsure", "part", "part unsure", "drop", "complete", "complete unsure", "cancel", "move",
		"trash", "delete", "restore", "purge", "read", "linked at once", "linked by proof", "found gone", "begin refused",
	} {
		if total[what] == 0 {
			list = append(list, what)
		}
	}
	if _, repeats := l.told(); repeats == 0 {
		list = append(list, "event told twice")
	}
	return list
}

func (l *loop) total() map[string]int {
	total := map[string]int{}
	for _, c := range l.clients {
		for what, n := range c.count {
			total[what] += n
		}
	}
	return total
}

func (l *loop) counts() string {
	total := l.total()
	words := make([]string, 0, len(total))
	for what, n := range total {
		words = append(words, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(words)
	events, repeats := l.told()
	return fmt.Sprintf("%s; %d events told, %d repeats", strings.Join(words, ", "), events, repeats)
}
