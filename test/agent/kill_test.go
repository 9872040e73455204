// Package agent kills the real agent, and the server it sends to, again and again, and then counts.
// It has tests only.
package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/client"
	"example.org/smartdrive/client/agent"
	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

func TestMain(m *testing.M) { process.Main(m) }

const (
	password = process.Password
	lives    = 24 // of the agent; every fourth time the server dies as well
	source   = "kill"
)

// house is a server, a directory that documents are dropped into, and who watches it.
type house struct {
	t        *testing.T
	binary   string
	data     string
	listen   string
	watch    string
	token    string
	messages *rig.Log // the server's and the agent's
	server   *process.Server
	rnd      *rand.Rand
	dropped  map[string]string // content's SHA-256 by name
	middle   int               // kills that hit a bundle on its way, or files about to be moved
}

func TestKilledAgents(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the server is stopped by signals")
	}
	h := &house{
		t: t, binary: process.Binary(t), data: filepath.Join(t.TempDir(), "data"), listen: process.Address(t), watch: t.TempDir(),
		messages: new(rig.Log), rnd: rand.New(rand.NewPCG(7, 8)), dropped: map[string]string{},
	}
	t.Cleanup(h.end)
	h.serve()
	h.login()
	for life := range lives {
		h.drop(life)
		h.live(life)
	}
	h.rest()
	h.check()
	t.Logf("%d documents; %d of %d kills hit something on its way", len(h.dropped), h.middle, lives)
}

func (h *house) end() {
	if h.server != nil {
		h.server.Kill()
	}
	if h.t.Failed() {
		text := h.messages.String()
		h.t.Logf("the last messages:\n%s", text[max(0, len(text)-4000):])
	}
}

func (h *house) serve() {
	h.t.Helper()
	server, err := process.Start(process.Options{
		Binary: h.binary, Data: h.data, Listen: h.listen, Log: h.messages, Env: []string{"SMARTDRIVE_ADMIN_PASSWORD=" + password},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.server = server
	ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := server.Ready(ctx); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) api() *client.Client {
	h.t.Helper()
	api, err := client.New(client.Options{BaseURL: "http://" + h.listen, Token: h.token})
	if err != nil {
		h.t.Fatal(err)
	}
	return api
}

func (h *house) login() {
	h.t.Helper()
	s, err := h.api().Login(h.t.Context(), "admin", password)
	if err != nil {
		h.t.Fatal(err)
	}
	h.token = s.Token
}

// drop writes some documents, as another program would. Some belong together; names come again and
// again.
func (h *house) drop(life int) {
	h.t.Helper()
	for n := range 4 {
		h.write(fmt.Sprintf("day-%d/发票-%d.xml", life, n), 200+h.rnd.IntN(5000))
		h.write(fmt.Sprintf("day-%d/发票-%d.pdf", life, n), 1+h.rnd.IntN(300_000))
	}
	if life%6 == 5 {
		h.write(fmt.Sprintf("day-%d/large.ndjson", life), 20<<20) // in parts
	}
}

func (h *house) write(name string, size int) {
	h.t.Helper()
	content := make([]byte, size)
	for n := range content {
		content[n] = byte(h.rnd.Uint32())
	}
	full := filepath.Join(h.watch, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(full, content, 0o666); err != nil {
		h.t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	h.dropped[name] = hex.EncodeToString(sum[:])
}

func (h *house) command(more ...string) *exec.Cmd {
	args := append([]string{"agent", "--watch", h.watch, "--to", "/intake/" + source, "--settle", "20ms", "--every", "50ms", "--max-files", "10"}, more...)
	cmd := exec.Command(h.binary, args...)
	cmd.Env = append(process.Environ(), "SMARTDRIVE_SERVER=http://"+h.listen, "SMARTDRIVE_TOKEN="+h.token)
	cmd.Stderr = h.messages
	return cmd
}

// live is one life of the agent: it ends at a random moment, or soon after a bundle has been
// frozen.
func (h *house) live(life int) {
	h.t.Helper()
	before, err := agent.ReadStatus(h.watch)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // in the first life
		h.t.Fatal(err)
	}
	cmd := h.command()
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	if life%2 == 0 {
		process.Eventually(h.t, 3*time.Minute, "a bundle is frozen", func() error {
			s, err := agent.ReadStatus(h.watch)
			if err != nil || s.Sending == nil && s.Totals.Bundles == before.Totals.Bundles { // it may have been sent by now
				return errors.Join(err, errors.New("nothing is on its way"))
			}
			return nil
		})
	}
	late := time.NewTimer(time.Duration(h.rnd.IntN(250)) * time.Millisecond)
	<-late.C
	if life%4 == 3 {
		h.server.Kill()
	}
	if err := cmd.Process.Kill(); err != nil {
		h.t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if s, err := agent.ReadStatus(h.watch); err == nil && (s.Sending != nil || s.Moving > 0) {
		h.middle++
	}
	if life%4 == 3 {
		h.serve()
	}
}

// rest lets everything arrive.
func (h *house) rest() {
	h.t.Helper()
	process.Eventually(h.t, 3*time.Minute, "an agent that nobody kills sends the rest", func() error {
		return h.command("--once").Run()
	})
}

// check wants each document in exactly one sealed bundle, as it was written, and in sent/; and
// nothing else anywhere.
func (h *house) check() {
	h.t.Helper()
	api, arrived := h.api(), map[string]int{}
	root, err := api.NodeAt(h.t.Context(), "/intake/"+source)
	if err != nil {
		h.t.Fatal(err)
	}
	for folder, err := range api.AllChildren(h.t.Context(), root.ID) {
		if err != nil {
			h.t.Fatal(err)
		}
		for sum, n := range h.sealed(api, folder) {
			arrived[sum] += n
		}
	}
	for name, sum := range h.dropped {
		if arrived[sum] != 1 {
			h.t.Errorf("%s arrived %d times", name, arrived[sum])
		}
	}
	if len(arrived) != len(h.dropped) {
		h.t.Errorf("%d contents arrived, %d were dropped", len(arrived), len(h.dropped))
	}
	h.checkMoved()
}

// sealed returns the contents of one bundle, as its manifest and its members say alike.
func (h *house) sealed(api *client.Client, folder client.Node) map[string]int {
	h.t.Helper()
	members := map[string]client.Node{}
	for n, err := range api.AllChildren(h.t.Context(), folder.ID) {
		if err != nil {
			h.t.Fatal(err)
		}
		members[n.Name] = n
	}
	m := h.manifest(api, members[string(bundle.MetaName)])
	if m.ID != folder.Name || len(m.Members) != len(members)-1 {
		h.t.Errorf("%s: the manifest is of %s and has %d members; %d files are there", folder.Name, m.ID, len(m.Members), len(members))
	}
	sums := map[string]int{}
	for _, member := range m.Members {
		there := members[member.Name]
		if there.Size != member.Size || there.Digests["sha256"] != "" && there.Digests["sha256"] != member.SHA256 {
			h.t.Errorf("%s: %s is not what the manifest says", folder.Name, member.Name)
		}
		sums[member.SHA256]++
	}
	return sums
}

func (h *house) manifest(api *client.Client, n client.Node) *bundle.Manifest {
	h.t.Helper()
	down, err := api.Downloader(client.DownloadOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	name := filepath.Join(h.t.TempDir(), "meta.json")
	if _, err := down.Get(h.t.Context(), n.Path, name, client.GetOptions{}); err != nil {
		h.t.Fatalf("a bundle without a manifest: %v", err)
	}
	f, err := os.Open(name)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	m, err := bundle.Decode(f)
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

// checkMoved wants every file in sent/, once, and none elsewhere.
func (h *house) checkMoved() {
	h.t.Helper()
	moved := map[string]int{}
	err := filepath.WalkDir(h.watch, func(full string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(h.watch, full)
		parts := strings.SplitN(filepath.ToSlash(rel), "/", 4)
		switch {
		case parts[0] == ".smartdrive":
		case parts[0] == "sent" && len(parts) == 4:
			moved[parts[3]]++
		default:
			h.t.Errorf("%s is still there", rel)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	for name := range h.dropped {
		if moved[name] != 1 {
			h.t.Errorf("%s is %d times below sent/", path.Base(name), moved[name])
		}
	}
}
