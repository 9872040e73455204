package golden

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

func TestMain(m *testing.M) { process.Main(m) }

// The directories of a release: after a clean stop, and after kill -9 with uploads under way.
var states = []string{"stopped", "killed"}

// Every directory that a release has left is opened, and everything is there.
func TestReleasesOpen(t *testing.T) {
	t.Parallel()
	releases, err := filepath.Glob("testdata/*/stopped.json")
	if err != nil || len(releases) == 0 {
		t.Fatal("there are no golden directories", err)
	}
	for _, release := range releases {
		for _, state := range states {
			dir := filepath.Dir(release)
			t.Run(filepath.Base(dir)+"/"+state, func(t *testing.T) {
				t.Parallel()
				opens(t, filepath.Join(dir, state))
			})
		}
	}
}

// opens opens archive.tar.gz with the current binary and finds everything that archive.json lists.
// The maximum ages are set so high that nothing expires. An upload that was active is parked soon.
func opens(t *testing.T, archive string) {
	m := readManifest(t, archive+".json")
	site := rig.New(t, "--upload-idle", "200ms", "--upload-abandon", "87600h", "--upload-max-age", "87600h", "--trash-keep", "87600h")
	unpack(t, archive+".tar.gz", site.Data)
	s := site.Start(t)
	for i := range m.Users {
		m.Users[i].check(t, s)
	}
	s.Kill() // opened, and killed at once: nothing was lost by opening it
	s = site.Start(t)
	for i := range m.Users {
		m.Users[i].check(t, s)
		m.Users[i].goesOn(t, s)
	}
	s.End(t)
	sound(t, site)
}

// client is the user with the token of then.
func (u *user) client(t *testing.T, s *rig.Server) rig.User {
	t.Helper()
	c := s.Anybody(t)
	c.Name, c.Token = u.Name, u.Token
	return c
}

// check finds everything as it was left.
func (u *user) check(t *testing.T, s *rig.Server) {
	t.Helper()
	c := u.client(t, s)
	if me := s.Login(t, u.Name).Get(t, "/me").JSON(t, http.StatusOK); me["user"].(map[string]any)["name"] != u.Name {
		t.Errorf("%s is %v", u.Name, me)
	}
	for _, f := range u.Files {
		f.check(t, c)
		for _, l := range u.Links {
			if l.Node == f.Node {
				l.check(t, s, f.Versions[0])
			}
		}
	}
	u.ownsLinks(t, c)
	var unfinished int64
	for _, o := range u.Uploads {
		process.Eventually(t, rig.Patience, o.Path+" is parked", func() error { return o.parked(t, c) })
		unfinished += o.bytes()
	}
	want := rig.Ledger{Total: u.Ledger.Total, Finished: u.Ledger.Finished, Unfinished: unfinished}
	if diff := cmp.Diff(want, s.Ledger(t, u.Name)); diff != "" {
		t.Errorf("what %s is charged, want and got:\n%s", u.Name, diff)
	}
}

// parked finds the upload with the parts that had arrived.
func (o open) parked(t *testing.T, c rig.User) error {
	t.Helper()
	view := c.Get(t, "/uploads/"+o.ID).JSON(t, http.StatusOK)
	if view["path"] != o.Path || fmt.Sprint(view["received"]) != ranges(o.Received) {
		t.Errorf("the upload %s was %+v and is %v", o.Path, o, view)
	}
	if view["state"] != "parked" {
		return fmt.Errorf("it is %v", view["state"])
	}
	return nil
}

// bytes is how many have arrived.
func (o open) bytes() (n int64) {
	for _, part := range o.Received {
		n += min(o.PartSize, o.Size-int64(part)*o.PartSize)
	}
	return n
}

// ranges formats part numbers, no two of which are adjacent, as the API does.
func ranges(parts []int) string {
	all := [][2]int{}
	for _, n := range parts {
		all = append(all, [2]int{n, n})
	}
	return fmt.Sprint(all)
}

func (f file) check(t *testing.T, c rig.User) {
	t.Helper()
	node := c.Get(t, "/nodes/"+f.Node).JSON(t, http.StatusOK)
	if node["path"] != f.Path || (node["trashed_at"] != nil) != f.Trashed {
		t.Errorf("%s is %v", f.Path, node)
	}
	if f.Trashed {
		return // its content is looked at once it is restored
	}
	if at := c.Node(t, f.Path); at["id"] != f.Node {
		t.Errorf("at %s is %v", f.Path, at["id"])
	}
	f.bytes(t, c)
}

// check downloads the file of the link as a visitor.
func (l link) check(t *testing.T, s *rig.Server, want version) {
	t.Helper()
	visitor := s.Anybody(t)
	opened := visitor.Post(t, "/public/shares/"+l.Token+"/open", map[string]any{}).JSON(t, http.StatusOK)
	r := visitor.Get(t, "/public/shares/"+l.Token+"/nodes/root/content?access="+opened["access"].(string)).Is(t, http.StatusOK)
	if got := versionOf(r.Bytes); got != want {
		t.Errorf("the link %s has %+v, want %+v", l.Token, got, want)
	}
}

// ownsLinks finds the links in the user's list, with their tokens: the key that encrypts them is
// there.
func (u *user) ownsLinks(t *testing.T, c rig.User) {
	t.Helper()
	var found []link
	for _, item := range c.Get(t, "/shares").Items(t) {
		found = append(found, link{Token: item["token"].(string), Node: item["node"].(map[string]any)["id"].(string)})
	}
	if diff := cmp.Diff(u.Links, found); diff != "" {
		t.Errorf("the links of %s, want and got:\n%s", u.Name, diff)
	}
}

// bytes reads every version of the file.
func (f file) bytes(t *testing.T, c rig.User) {
	t.Helper()
	versions := c.Get(t, "/nodes/"+f.Node+"/versions").Items(t)
	if len(versions) != len(f.Versions) {
		t.Fatalf("%s has %d versions, had %d", f.Path, len(versions), len(f.Versions))
	}
	for i, want := range f.Versions {
		r := c.Get(t, "/nodes/"+f.Node+"/content?version="+versions[i]["id"].(string)).Is(t, http.StatusOK)
		if got := versionOf(r.Bytes); got != want {
			t.Errorf("version %d of %s is %+v, was %+v", i, f.Path, got, want)
		}
	}
	if got := versionOf(c.Get(t, "/nodes/"+f.Node+"/content").Bytes); got != f.Versions[0] {
		t.Errorf("%s is %+v, was %+v", f.Path, got, f.Versions[0])
	}
}

// goesOn continues the user's work: it restores, completes, adds and deletes files.
func (u *user) goesOn(t *testing.T, s *rig.Server) {
	t.Helper()
	c := u.client(t, s)
	for _, f := range u.Files {
		if f.Trashed {
			c.Post(t, "/nodes/"+f.Node+"/restore", nil).Is(t, http.StatusOK)
			f.bytes(t, c)
		}
	}
	finished := u.Ledger.Finished
	for _, o := range u.Uploads {
		o.complete(t, c)
		finished += o.Size
	}
	fresh := versionOf(text(99, 5000))
	c.Do(t, http.MethodPut, "/files/new-in-this-release", text(99, 5000)).Is(t, http.StatusCreated)
	if got := versionOf(c.Get(t, "/nodes/"+c.Node(t, "/new-in-this-release")["id"].(string)+"/content").Bytes); got != fresh {
		t.Errorf("a new file is %+v", got)
	}
	want := rig.Ledger{Total: u.Ledger.Total, Finished: finished + fresh.Size}
	if diff := cmp.Diff(want, s.Ledger(t, u.Name)); diff != "" {
		t.Errorf("what %s is charged in the end, want and got:\n%s", u.Name, diff)
	}
}

// complete sends the missing parts and compares the download.
func (o open) complete(t *testing.T, c rig.User) {
	t.Helper()
	content := text(o.Seed, o.Size)
	have := map[int]bool{}
	for _, n := range o.Received {
		have[n] = true
	}
	for n := 0; int64(n)*o.PartSize < o.Size; n++ {
		if !have[n] {
			c.Do(t, http.MethodPut, fmt.Sprintf("/uploads/%s/parts/%d", o.ID, n), o.part(content, n)).Is(t, http.StatusNoContent)
		}
	}
	c.Post(t, "/uploads/"+o.ID+"/complete", map[string]any{"digests": map[string]string{"sha256": o.SHA256}}).Is(t, http.StatusCreated)
	id := c.Node(t, o.Path)["id"].(string)
	if got := versionOf(c.Get(t, "/nodes/"+id+"/content").Bytes); got.SHA256 != o.SHA256 {
		t.Errorf("%s was completed to %+v", o.Path, got)
	}
}

func (o open) part(content []byte, n int) []byte {
	off := int64(n) * o.PartSize
	return content[off:min(off+o.PartSize, o.Size)]
}

// sound fails the test unless neither the independent checker nor fsck finds anything.
func sound(t *testing.T, site *rig.Site) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), process.Build(t, "example.org/smartdrive/test/check"), site.Data).CombinedOutput()
	if err != nil {
		t.Errorf("the directory is not sound: %v\n%s", err, out)
	}
	site.Admin(t, "", "fsck", "--deep").OK(t)
}

func TestTheArchivesAreSmall(t *testing.T) {
	t.Parallel()
	sums := map[string]int64{}
	files, err := filepath.Glob("testdata/*/*")
	for _, f := range files {
		info, statErr := os.Stat(f)
		if statErr != nil {
			t.Fatal(statErr)
		}
		sums[filepath.Dir(f)] += info.Size()
	}
	for release, sum := range sums {
		if sum > 300_000 {
			t.Errorf("%s has %d bytes", release, sum)
		}
	}
	if err != nil || len(sums) == 0 {
		t.Errorf("%d releases, %v", len(sums), err)
	}
}
