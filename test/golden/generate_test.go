package golden

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lukechampine.com/blake3"

	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

var update = flag.Bool("update", false, "write the golden directories of this release to testdata")

// release names the directory that -update writes.
const release = "0.1.0"

// The generator works at any time, not only on the day of a release: the test opens the archives
// that it creates.
func TestGenerate(t *testing.T) {
	t.Parallel()
	dir := rig.Dir(t)
	if *update {
		dir = filepath.Join("testdata", release)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g := &generator{site: rig.New(t), dir: dir}
	g.Program = g.version(t)
	g.quietly(t)
	g.underWay(t)
	for _, state := range states {
		opens(t, filepath.Join(dir, state))
	}
}

func (g *generator) version(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), process.Binary(t), "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

// generator makes the directories of one installation.
type generator struct {
	manifest
	site *rig.Site
	dir  string
}

// take keeps the directory as it is now.
func (g *generator) take(t *testing.T, state string) {
	t.Helper()
	g.write(t, filepath.Join(g.dir, state+".json"))
	pack(t, g.site.Data, filepath.Join(g.dir, state+".tar.gz"))
}

// quietly creates the state of a clean stop: files, versions, trash, deduplicated content and a
// parked upload.
func (g *generator) quietly(t *testing.T) {
	s := g.site.Start(t, "--upload-idle", "200ms")
	ann, bob := g.newUser(t, s, "ann", 64*rig.MiB), g.newUser(t, s, "bob", 32*rig.MiB)
	g.put(t, ann, "/documents/small.txt", text(1, 700))
	g.put(t, ann, "/documents/empty", nil)
	g.put(t, ann, "/documents/\u6587\u6863 caf\u00e9.txt", text(2, 5000))
	for seed := uint64(3); seed < 6; seed++ {
		g.put(t, ann, "/documents/versions.txt", text(seed, int64(1000*seed)))
	}
	shared := text(6, 2*rig.MiB+100)
	g.upload(t, ann, "/in parts", 6, int64(len(shared)))
	g.link(t, bob, "/linked", shared)
	g.share(t, ann, "/in parts")
	g.put(t, ann, "/trashed/file", text(7, 3000))
	g.trash(t, ann, "/trashed/file")
	parked := g.begin(t, ann, "/parked", 8, 3*rig.MiB+5, 0, 2)
	process.Eventually(t, rig.Patience, "the upload is parked", func() error {
		if view := ann.Get(t, "/uploads/"+parked).JSON(t, http.StatusOK); view["state"] != "parked" {
			return fmt.Errorf("it is %v", view["state"])
		}
		return nil
	})
	g.user(t, "ann").Uploads[0].State = "parked"
	g.balance(t, s)
	s.End(t)
	g.take(t, "stopped")
}

// underWay adds an active upload and a file that only the database's log has, and kills the server.
func (g *generator) underWay(t *testing.T) {
	s := g.site.Start(t)
	bob := s.Anybody(t)
	bob.Name, bob.Token = "bob", g.user(t, "bob").Token
	g.begin(t, bob, "/active", 9, 3*rig.MiB, 0, 2)
	g.put(t, bob, "/documents/in-the-log", text(10, 2000))
	g.balance(t, s)
	s.Kill()
	g.take(t, "killed")
}

// newUser makes a user with a quota and a token that never ends.
func (g *generator) newUser(t *testing.T, s *rig.Server, name string, total int64) rig.User {
	t.Helper()
	u := s.NewUser(t, name, total)
	made := u.Post(t, "/tokens", map[string]any{"name": "golden", "scopes": []string{"read", "write"}}).JSON(t, http.StatusCreated)
	u.Token = made["token"].(string)
	g.Users = append(g.Users, user{Name: name, Token: u.Token, Uploads: []open{}})
	return u
}

// note adds a version to the manifest.
func (g *generator) note(t *testing.T, name string, node map[string]any, content []byte) {
	t.Helper()
	u := g.user(t, name)
	id := node["id"].(string)
	at := slices.IndexFunc(u.Files, func(f file) bool { return f.Node == id })
	if at < 0 {
		at = len(u.Files)
		u.Files = append(u.Files, file{Node: id, Path: node["path"].(string)})
	}
	u.Files[at].Versions = append([]version{versionOf(content)}, u.Files[at].Versions...)
}

func (g *generator) put(t *testing.T, u rig.User, path string, content []byte) {
	t.Helper()
	r := u.Do(t, http.MethodPut, "/files"+rig.Escape(path)+"?parents=true", content).Is(t, http.StatusCreated, http.StatusOK)
	g.note(t, u.Name, r.JSON(t, r.StatusCode), content)
}

func (g *generator) trash(t *testing.T, u rig.User, path string) {
	t.Helper()
	id := u.Node(t, path)["id"].(string)
	u.Do(t, http.MethodDelete, "/nodes/"+id, nil).Is(t, http.StatusNoContent)
	files := g.user(t, u.Name).Files
	files[slices.IndexFunc(files, func(f file) bool { return f.Node == id })].Trashed = true
}

// share makes a link of a file. The database has the hash of its token, and the token encrypted.
func (g *generator) share(t *testing.T, u rig.User, path string) {
	t.Helper()
	id := u.Node(t, path)["id"].(string)
	made := u.Post(t, "/shares", map[string]any{"node": id}).JSON(t, http.StatusCreated)
	mine := g.user(t, u.Name)
	mine.Links = append(mine.Links, link{Token: made["token"].(string), Node: id})
}

// begin begins an upload, sends some parts and returns its id.
func (g *generator) begin(t *testing.T, u rig.User, path string, seed uint64, size int64, parts ...int) string {
	t.Helper()
	up := u.Post(t, "/uploads", map[string]any{"path": path, "size": size, "part_size": rig.MiB}).JSON(t, http.StatusCreated)
	o := open{
		ID: up["id"].(string), Path: path, State: "active", Seed: seed, Size: size, PartSize: rig.MiB, Received: parts,
		SHA256: versionOf(text(seed, size)).SHA256,
	}
	for _, n := range parts {
		u.Do(t, http.MethodPut, fmt.Sprintf("/uploads/%s/parts/%d", o.ID, n), o.part(text(seed, size), n)).Is(t, http.StatusNoContent)
	}
	mine := g.user(t, u.Name)
	mine.Uploads = append(mine.Uploads, o)
	return o.ID
}

// upload brings a file in parts, the last one first.
func (g *generator) upload(t *testing.T, u rig.User, path string, seed uint64, size int64) {
	t.Helper()
	id := g.begin(t, u, path, seed, size, 2, 1, 0)
	mine := g.user(t, u.Name)
	mine.Uploads = mine.Uploads[:len(mine.Uploads)-1]
	done := u.Post(t, "/uploads/"+id+"/complete", map[string]any{}).JSON(t, http.StatusCreated)
	g.note(t, u.Name, done["node"].(map[string]any), text(seed, size))
}

// link brings a file by its digest and a proof, without its bytes.
func (g *generator) link(t *testing.T, u rig.User, path string, content []byte) {
	t.Helper()
	sum := blake3.Sum256(content)
	begun := u.Post(t, "/uploads", map[string]any{
		"path": path, "size": len(content), "digests": map[string]string{"blake3": hex.EncodeToString(sum[:])},
	}).JSON(t, http.StatusCreated)
	challenge := begun["challenge"].(map[string]any)
	nonce, err := hex.DecodeString(challenge["nonce"].(string))
	if err != nil {
		t.Fatal(err)
	}
	h := hmac.New(sha256.New, nonce)
	for _, r := range challenge["ranges"].([]any) {
		off, length := int64(r.([]any)[0].(float64)), int64(r.([]any)[1].(float64))
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(off)))
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(length)))
		h.Write(content[off : off+length])
	}
	proof := map[string]string{"alg": "hmac-sha256", "answer": hex.EncodeToString(h.Sum(nil))}
	done := u.Post(t, "/uploads/"+begun["id"].(string)+"/proof", proof).JSON(t, http.StatusCreated)
	g.note(t, u.Name, done["node"].(map[string]any), content)
}

// balance notes what everybody is charged.
func (g *generator) balance(t *testing.T, s *rig.Server) {
	t.Helper()
	for i := range g.Users {
		g.Users[i].Ledger = s.Ledger(t, g.Users[i].Name)
	}
}
