package deploy_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the test makes a database of its own
	"go.yaml.in/yaml/v3"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

const (
	alertsFile    = "prometheus/alerts.yaml"
	dashboardFile = "grafana/smartdrive.json"
	runbookFile   = "../docs/runbook.md"
)

// Figures that an embedded instance does not have, by the beginning of their names.
var clusterOnly = regexp.MustCompile(`^smartdrive_(timer_|stream_|outbox_unsent_|outbox_lag_)`)

// Figures that come with an event that a test cannot wait for, each with the reason.
var later = map[string]string{
	"smartdrive_audit_corrections": "one series for each invariant with a repaired finding",
}

// diskOnly are figures of directories of this machine, which a cluster does not have.
var diskOnly = map[string]bool{
	"smartdrive_disk_free_bytes": true, "smartdrive_data_disk_free_bytes": true,
	"smartdrive_backup_last_success_timestamp_seconds": true, "smartdrive_database_copy_last_success_timestamp_seconds": true,
}

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	parse := yaml.NewDecoder(bytes.NewReader(text))
	parse.KnownFields(true)
	if err := parse.Decode(&file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alarms")
	}
	return all
}

func TestAlarmsAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range alerts(t) {
		if seen[r.Alert] || !strings.HasPrefix(r.Alert, "SmartDrive") {
			t.Errorf("the name %q", r.Alert)
		}
		seen[r.Alert] = true
		if r.Expr == "" || r.Annotations["summary"] == "" || !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) {
			t.Errorf("%s lacks something: %+v", r.Alert, r)
		}
		if _, err := time.ParseDuration(cmp.Or(r.For, "0s")); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
	}
}

// Who is woken finds what to do under the alarm's name, and nothing about alarms that are gone.
func TestEveryAlarmHasAnEntryInTheRunbook(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(runbookFile)
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]string{}
	for _, part := range strings.Split(string(text), "\n### ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		entries[name] = body
	}
	for _, r := range alerts(t) {
		body, ok := entries[r.Alert]
		if !ok {
			t.Errorf("the runbook has no entry %s", r.Alert)
			continue
		}
		for _, word := range []string{"**Means.**", "**First look.**", "**Causes.**", "**Do.**", "**Do not.**"} {
			if !strings.Contains(body, word) {
				t.Errorf("%s does not say %s", r.Alert, word)
			}
		}
		delete(entries, r.Alert)
	}
	for name := range entries {
		if strings.HasPrefix(name, "SmartDrive") {
			t.Errorf("there is no alarm %s", name)
		}
	}
}

// expressions returns every query by where it stands.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, r := range alerts(t) {
		all[r.Alert] = r.Expr
	}
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID, Title string
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d, %q: the number is taken, or it shows nothing", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			all[fmt.Sprintf("panel %q %s", p.Title, q.RefID)] = q.Expr
		}
	}
	for _, v := range board.Templating.List {
		if v.Type == "query" {
			all["variable "+v.Name] = v.Query
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d queries were found: does this test still read the files?", len(all))
	}
	return all
}

// documents are pages that name figures.
func documents(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	return append(pages, "../README.md", "../README.zh-CN.md")
}

// ending is a figure that a page shortens: "`..._repaired_total`".
var ending = regexp.MustCompile("`\\.\\.\\.(_[a-z_]+)`")

// holdEndings compares the shortened names of pages with what an instance shows. Lines that begin
// with "| with" are about a cluster.
func holdEndings(t *testing.T, have map[string]bool) {
	t.Helper()
	found := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "| with ") || strings.HasPrefix(line, "| 使用 ") {
				continue
			}
			for _, m := range ending.FindAllStringSubmatch(line, -1) {
				found++
				if !slices.ContainsFunc(slices.Collect(maps.Keys(have)), func(name string) bool { return strings.HasSuffix(name, m[1]) }) {
					t.Errorf("%s names ...%s, and no figure ends in it", path, m[1])
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d shortened names were found", found)
	}
}

var figureName = regexp.MustCompile(`\bsmartdrive_[a-z0-9_]+[a-z0-9]\b`)

// wanted returns all figures that alarms, dashboard and documents name, and where.
func wanted(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	for where, expr := range expressions(t) {
		found := figureName.FindAllString(expr, -1)
		if len(found) == 0 && !strings.Contains(expr, "up{") && !strings.Contains(expr, "process_") && !strings.Contains(expr, "go_") {
			t.Errorf("%s asks for no figure: %s", where, expr)
		}
		for _, name := range found {
			names[name] = where
		}
	}
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range figureName.FindAllString(string(text), -1) {
			names[name] = filepath.Base(path)
		}
	}
	return names
}

var exported = regexp.MustCompile(`(?m)^# TYPE (smartdrive_\w+) (\w+)$`)

// shown is what an instance shows: names of series.
func shown(t *testing.T, url string) (map[string]bool, string) {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: %s, %v", resp.Status, err)
	}
	names := map[string]bool{}
	for _, m := range exported.FindAllStringSubmatch(string(body), -1) {
		names[m[1]] = true
		if m[2] == "histogram" {
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				names[m[1]+end] = true
			}
		}
	}
	return names, string(body)
}

func serve(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	s, err := process.Start(process.Options{
		Binary: process.Binary(t), Data: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", Args: args, Log: t.Output(),
		Env: []string{"SMARTDRIVE_ADMIN_PASSWORD=correct horse battery", "HOME=" + dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	at, err := s.Ready(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

var route = regexp.MustCompile(`route="(\w+) ([^"]+)"`)

// hold compares what is asked for with what an instance shows; left out is what it does not have by
// its nature.
func hold(t *testing.T, at string, leftOut func(name string) bool) {
	t.Helper()
	names := wanted(t)
	process.Eventually(t, 4*time.Minute, "the figures are sampled", func() error {
		if have, _ := shown(t, at); !have["smartdrive_instances_alive"] || !have["smartdrive_consumer_behind_records"] {
			return errors.New("not yet")
		}
		return nil
	})
	for where, expr := range expressions(t) { // a route is shown once it was asked for
		for _, m := range route.FindAllStringSubmatch(expr, -1) {
			req, err := http.NewRequestWithContext(t.Context(), m[1], at+m[2], nil)
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if _, body := shown(t, at); !strings.Contains(body, m[0]) {
				t.Errorf("%s: there is no %s", where, m[0])
			}
		}
	}
	have, _ := shown(t, at)
	holdEndings(t, have)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch {
		case have[name]:
			if leftOut(name) {
				t.Errorf("%s is shown where it is said that it is not", name)
			}
		case later[name] == "" && !leftOut(name):
			t.Errorf("%s names %s, which is not shown", names[name], name)
		}
	}
}

func TestFiguresOfOneInstance(t *testing.T) {
	t.Parallel()
	hold(t, serve(t), clusterOnly.MatchString)
}

func TestFiguresOfACluster(t *testing.T) {
	t.Parallel()
	name := servicetest.Unique()
	bucket, err := url.Parse(servicetest.URL(t, servicetest.S3))
	if err != nil {
		t.Fatal("SMARTDRIVE_TEST_S3 is no URL")
	}
	bucket.Path += "/" + name
	at := serve(t, "--db", database(t, name), "--redis", servicetest.URL(t, servicetest.Redis), "--kafka", servicetest.URL(t, servicetest.Kafka),
		"--blobs", bucket.String(), "--namespace", name)
	hold(t, at, func(name string) bool { return diskOnly[name] })
}

// database returns the URL of a database of the test's own.
func database(t *testing.T, name string) string {
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
	if _, err := server.ExecContext(t.Context(), "CREATE DATABASE deploy_"+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := errors.Join(sqldbtest.Drop(ctx, server, "deploy_"+name), server.Close()); err != nil {
			t.Error(err)
		}
	})
	u.Path = "/deploy_" + name
	return u.String()
}

func TestPrometheusReadsTheRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("prometheus/prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		RuleFiles []string `yaml:"rule_files"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(file.RuleFiles, []string{filepath.Base(alertsFile)}) || !strings.Contains(string(text), "job_name: smartdrive\n") {
		t.Errorf("it reads %v", file.RuleFiles)
	}
}
