package rest_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// connect serves the stack on a real port and returns the public client for a user.
func (s *stack) connect(t *testing.T, u user) *client.Client {
	t.Helper()
	srv := httptest.NewServer(s.server)
	t.Cleanup(srv.Close)
	c, err := client.New(client.Options{BaseURL: srv.URL, Token: u.token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestTheClientUnderstandsTheServer takes a tree to the server and back with the public client:
// both sides of the contract.
func TestTheClientUnderstandsTheServer(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	c := s.connect(t, s.newUser(t, "ann", 0))
	from, to := t.TempDir(), t.TempDir()
	for name, size := range map[string]int{"tree/empty": 0, "tree/small.txt": 1000, "tree/sub/你好 %2F.bin": 3 << 20, "tree/large": 9<<20 + 1} {
		file := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, pattern(size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up := must[*client.Uploader](t)(c.Uploader(client.UploadOptions{PartSize: 1 << 20}))
	sent := must[client.Summary](t)(up.PutTree(t.Context(), filepath.Join(from, "tree"), "/tree", client.TreeOptions{}))
	if sent.Sent+sent.Instant != 4 || sent.Failed != 0 {
		t.Errorf("sent %+v", sent)
	}
	again := must[client.Summary](t)(up.PutTree(t.Context(), filepath.Join(from, "tree"), "/tree", client.TreeOptions{SkipSame: true, Conflict: client.Replace}))
	if again.Skipped != 4 {
		t.Errorf("again %+v", again)
	}
	down := must[*client.Downloader](t)(c.Downloader(client.DownloadOptions{PartSize: 1 << 20}))
	got := must[client.Summary](t)(down.GetTree(t.Context(), "/tree", filepath.Join(to, "tree"), client.TreeOptions{}))
	if got.Received != 4 || got.Failed != 0 {
		t.Errorf("received %+v", got)
	}
	for _, name := range []string{"tree/empty", "tree/small.txt", "tree/large"} {
		a, b := must[[]byte](t)(os.ReadFile(filepath.Join(from, name))), must[[]byte](t)(os.ReadFile(filepath.Join(to, name)))
		if !bytes.Equal(a, b) {
			t.Errorf("%s came back as %d bytes", name, len(b))
		}
	}
}

func TestTheClientCallsEverything(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	c, ctx := s.connect(t, s.admin(t)), t.Context()
	node, list := must[client.Node](t), must[client.List[client.Node]](t)
	folder := node(c.CreateFolder(ctx, client.NewFolder{Path: "/a/b", Parents: true}))
	sub := node(c.CreateFolder(ctx, client.NewFolder{Parent: folder.ID, Name: "c"}))
	sub = node(c.ChangeNode(ctx, sub.ID, client.Change{Name: "d", Rev: sub.Rev}))
	copied := node(c.CopyNode(ctx, sub.ID, client.Root, "e", client.Fail))
	if copied.Path != "/e" || node(c.NodeAt(ctx, "/a/b/d")).ID != sub.ID || node(c.Node(ctx, client.Root)).Path != "/" {
		t.Errorf("the copy is %+v", copied)
	}
	if got := list(c.Children(ctx, client.Root, client.Page{Limit: 1, Sort: "name", Order: "desc"})); len(got.Items) != 1 || got.NextCursor == nil {
		t.Errorf("the children are %+v", got)
	}
	if err := c.DeleteNode(ctx, copied.ID, false); err != nil {
		t.Error(err)
	}
	if got := list(c.Trash(ctx, client.Page{})); len(got.Items) != 1 || got.Items[0].TrashedAt == nil {
		t.Errorf("the trash is %+v", got)
	}
	node(c.RestoreNode(ctx, copied.ID, client.Rename))
	if err := c.DeleteNode(ctx, copied.ID, true); err != nil {
		t.Error(err)
	}
	if err := c.EmptyTrash(ctx); err != nil {
		t.Error(err)
	}
	total := int64(1 << 20)
	bob := must[client.User](t)(c.CreateUser(ctx, client.NewUser{Name: "bob", Password: password, Total: &client.Quota{Bytes: total}}))
	if got := must[client.List[client.User]](t)(c.Users(ctx, "bob", client.Page{})); len(got.Items) != 1 || got.Items[0].AccountID == "" {
		t.Errorf("the users are %+v", got)
	}
	must[client.User](t)(c.ChangeUser(ctx, bob.ID, client.UserChange{State: "disabled"}))
	if got := must[client.Ledger](t)(c.UserLedger(ctx, bob.ID)); *got.Total != total {
		t.Errorf("the ledger is %+v", got)
	}
	if err := c.DeleteUser(ctx, bob.ID); err != nil {
		t.Error(err)
	}
	token := must[client.AccessToken](t)(c.CreateToken(ctx, client.NewToken{Name: "x", Scopes: []string{"read"}, ExpiresIn: 60}))
	if me := must[client.Me](t)(c.WithToken(token.Token).Me(ctx)); me.User.Name != "admin" {
		t.Errorf("the token is %+v's", me)
	}
	if err := c.DeleteToken(ctx, token.ID); err != nil {
		t.Error(err)
	}
	must[client.List[client.AccessToken]](t)(c.Tokens(ctx, client.Page{}))
	login := must[client.Session](t)(c.Login(ctx, "admin", password))
	if got := must[client.List[client.Session]](t)(c.Sessions(ctx, client.Page{})); len(got.Items) < 2 {
		t.Errorf("the sessions are %+v", got)
	}
	if err := c.WithToken(login.Token).Logout(ctx, "current"); err != nil {
		t.Error(err)
	}
	shared := must[client.Share](t)(c.CreateShare(ctx, client.NewShare{Node: sub.ID, Code: client.AutoCode, ExpiresIn: 3600, MaxDownloads: 3}))
	if got := must[client.List[client.Share]](t)(c.Shares(ctx, sub.ID, client.Page{})); len(got.Items) != 1 || *got.Items[0].Code != *shared.Code || got.Items[0].State != "open" {
		t.Errorf("the shares are %+v", got)
	}
	collect := must[client.Collect](t)(c.CreateCollect(ctx, client.NewCollect{Folder: folder.ID, Title: "in", MaxBytes: 1000, MaxFile: 10}))
	if got := must[client.List[client.Collect]](t)(c.Collects(ctx, client.Page{})); len(got.Items) != 1 || *got.Items[0].Left != 1000 || got.Items[0].ID != collect.ID {
		t.Errorf("the collect links are %+v", got)
	}
	for _, err := range []error{c.DeleteShare(ctx, shared.ID), c.DeleteCollect(ctx, collect.ID)} {
		if err != nil {
			t.Error(err)
		}
	}
	size := int64(10)
	up := must[client.Upload](t)(c.BeginUpload(ctx, client.NewUpload{Path: "/x", Size: &size}))
	for _, err := range []error{
		second(c.Prepare(ctx)), errOf(c.Findings(ctx, client.Page{})), errOf(c.DeadLetters(ctx, client.Page{})), errOf(c.AdminUploads(ctx, "", client.Page{})),
		errOf(c.Uploads(ctx, client.Page{})), errOf(c.Parts(ctx, up.ID, client.Page{})), errOf(c.AmendUpload(ctx, up.ID, client.UploadChange{Name: "y"})),
		c.CancelUpload(ctx, up.ID), c.SetPassword(ctx, password, "another password"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Upload(ctx, up.ID); !client.IsCode(err, client.CodeGone) {
		t.Errorf("the upload is %v", err)
	}
}

func errOf[T any](_ T, err error) error          { return err }
func second[T, U any](_ T, _ U, err error) error { return err }

// A selection is downloaded as one zip, also by the client library. After a file has changed, an
// interrupted download is not resumed.
func TestTheClientDownloadsAChoiceAsAZip(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	c := s.connect(t, s.newUser(t, "ann", 0))
	dir := t.TempDir()
	up := must[*client.Uploader](t)(c.Uploader(client.UploadOptions{PartSize: 1 << 20}))
	var in client.NewArchive
	store := func(name string, size int) {
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, pattern(size), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := up.Put(t.Context(), must[client.Source](t)(client.FileSource(file)), name, client.PutOptions{Conflict: client.Replace}); err != nil {
			t.Fatal(err)
		}
	}
	for name, size := range map[string]int{"/a.txt": 1000, "/b.bin": 3 << 20} {
		store(name, size)
		in.Nodes = append(in.Nodes, must[client.Node](t)(c.NodeAt(t.Context(), name)).ID)
	}
	in.Name = "choice"
	a := must[client.Archive](t)(c.CreateArchive(t.Context(), in))
	to := filepath.Join(dir, "choice.zip")
	if err := c.GetArchive(t.Context(), a, to, nil); err != nil {
		t.Fatal(err)
	}
	z := must[*zip.ReadCloser](t)(zip.OpenReader(to))
	defer z.Close()
	if info := must[os.FileInfo](t)(os.Stat(to)); info.Size() != a.Size || a.Total != 2 || len(z.File) != 2 {
		t.Errorf("%d bytes, %d entries of %+v", info.Size(), len(z.File), a)
	}
	store("/a.txt", 2000)
	if err := c.GetArchive(t.Context(), a, to+"2", nil); !errors.Is(err, client.ErrChanged) {
		t.Errorf("of files that have changed: %v", err)
	}
}
