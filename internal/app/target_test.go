package app

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/move/migrate"
)

// An administrator's token cannot choose the target of a migration over HTTP, because the server
// would open and write to it.
func TestRemoteMigrationTargetsAreRestricted(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	fresh := filepath.Join(t.TempDir(), "fresh")
	n := start1(t, testConfig(t, "--migration-targets", fresh+".allowed,"+fresh+".too"))
	token := n.login(t)
	for _, dry := range []string{"true", "false"} {
		body := `{"to_db":"` + fresh + `","to_blobs":"` + fresh + `","dry_run":` + dry + `}`
		if code, answer := n.send(t, token, http.MethodPost, "/api/v1/admin/migration", []byte(body)); code != http.StatusForbidden {
			t.Errorf("dry_run %s: %d %s", dry, code, answer)
		}
	}
	if _, err := os.Stat(fresh); err == nil {
		t.Error("the server wrote there")
	}
	body := `{"to_db":"` + fresh + `.allowed","to_blobs":"` + fresh + `.too","dry_run":true}`
	if code, answer := n.send(t, token, http.MethodPost, "/api/v1/admin/migration", []byte(body)); code != http.StatusOK {
		t.Errorf("a target of the settings: %d %s", code, answer)
	}
	n.move(t, rest.MigrationStart{ToDB: fresh, ToBlobs: fresh})
	if s := n.migration(t, token); s.Phase != migrate.Fill {
		t.Errorf("it is in phase %d", s.Phase)
	}
}

// A dry run reports its findings and changes nothing: no directory, file or table.
func TestADryRunWritesNothing(t *testing.T) {
	t.Parallel()
	a, _, _ := opened(t)
	look := func(in rest.MigrationStart) migrate.Report {
		t.Helper()
		in.DryRun = true
		report, err := moveSteps{a.mover, a.users}.Start(t.Context(), drive.Who{}, in)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	dir := t.TempDir()
	absent := filepath.Join(dir, "absent")
	if r := look(rest.MigrationStart{ToDB: absent, ToBlobs: absent}); !r.OK || r.Rows == 0 {
		t.Errorf("a new directory: %+v", r)
	}
	if found := below(t, dir); len(found) > 0 {
		t.Errorf("it made %v", found)
	}

	other := testConfig(t) // of another installation
	opens(t, other)
	before := below(t, other.Data)
	if r := look(rest.MigrationStart{ToDB: other.Data, ToBlobs: other.Blobs}); r.OK || !says(r, "installation") {
		t.Errorf("another installation's: %+v", r)
	}
	if after := below(t, other.Data); !slices.Equal(before, after) {
		t.Errorf("there was\n%v\nand is\n%v", before, after)
	}
}

// The same with a database on a server, which gets no table.
func TestADryRunMakesNoTable(t *testing.T) {
	t.Parallel()
	a, _, _ := opened(t)
	at := mysqlDatabase(t)
	report, err := moveSteps{a.mover, a.users}.Start(t.Context(), drive.Who{}, rest.MigrationStart{ToDB: at, DryRun: true})
	if err != nil || !report.OK || !says(report, "gets its tables when it begins") {
		t.Errorf("%+v, %v", report, err)
	}
	db, err := a.mover.openDatabase(t.Context(), at, migrate.Opening{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := db.TableCount(t.Context()); err != nil || n != 0 {
		t.Errorf("%d tables, %v", n, err)
	}
	if err := db.Write(t.Context(), nil); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("what is looked at takes writes: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func says(r migrate.Report, what string) bool {
	return slices.ContainsFunc(r.Checks, func(g migrate.Gate) bool { return strings.Contains(g.Detail, what) })
}

// below lists all files and directories below a directory, with their sizes and times.
func below(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all = append(all, path+" "+info.ModTime().String()+" "+drive.ByteSize(info.Size()).String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
