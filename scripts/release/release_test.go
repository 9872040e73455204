package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"go.yaml.in/yaml/v3"
)

func TestSectionOfAVersion(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## Unreleased\n\n- new\n\n## [0.2.0] - 2026-12-24\n\n- two\n\n### Detail\n\n- three\n\n## 0.1.0\n\n- one\n\n## 0.0.9\n"
	for version, want := range map[string]string{
		"0.2.0":      "## [0.2.0] - 2026-12-24\n\n- two\n\n### Detail\n\n- three\n",
		"0.1.0":      "## 0.1.0\n\n- one\n",
		"0.3.0-rc.1": "## Unreleased\n\n- new\n",
	} {
		if got, err := section(changelog, version); err != nil || got != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	for version, want := range map[string]string{"0.3.0": "has no section for version 0.3.0", "0.0.9": "is empty", "0.1": "no section"} {
		if _, err := section(changelog, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// render fills in the templates of the chart with its values, changed by change, and returns the
// objects by kind.
func render(t *testing.T, change func(values map[string]any)) map[string]map[string]any {
	t.Helper()
	const chart = "../../deploy/chart"
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	change(values)
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = func(v any) (string, error) {
		out, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(out), "\n"), err
	}
	objects := map[string]map[string]any{}
	names, err := filepath.Glob(filepath.Join(chart, "templates/*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatal("no templates", err)
	}
	for _, name := range names {
		parsed, err := template.New(filepath.Base(name)).Option("missingkey=error").Funcs(functions).ParseFiles(name)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := parsed.Execute(&out, map[string]any{
			"Values": values, "Chart": map[string]any{"AppVersion": "0.1.0"}, "Release": map[string]any{"Name": "drive", "Namespace": "files"},
		}); err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := yaml.NewDecoder(&out).Decode(&object); err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("%s: %v\n%s", name, err, out.String())
		}
		if kind, ok := object["kind"].(string); ok {
			objects[kind] = object
		}
	}
	return objects
}

// at returns the value below keys and indexes.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("%v: %v is no mapping", path, v)
			}
			v = m[p]
		case int:
			l, ok := v.([]any)
			if !ok || p >= len(l) {
				t.Fatalf("%v: %v has no %d", path, v, p)
			}
			v = l[p]
		}
	}
	return v
}

func TestChart(t *testing.T) {
	t.Parallel()
	objects := render(t, func(map[string]any) {})
	container := at(t, objects["StatefulSet"], "spec", "template", "spec", "containers", 0)
	if got := at(t, container, "image"); got != "smartdrive:0.1.0" {
		t.Errorf("the image is %v", got)
	}
	if at(t, container, "securityContext", "readOnlyRootFilesystem") != true {
		t.Error("the root file system can be written")
	}
	if objects["Ingress"] != nil || objects["Service"] == nil {
		t.Error("by default there is a service and no ingress")
	}

	objects = render(t, func(v map[string]any) {
		v["settings"] = map[string]any{"default-quota": "50GiB", "trusted-proxies": []any{"10.0.0.0/8"}}
		v["secrets"] = []any{"smartdrive-secrets"}
		v["nodeSelector"] = map[string]any{"disk": "large"}
		v["ingress"] = map[string]any{"enabled": true, "className": "nginx", "annotations": map[string]any{"a": "b"}, "host": "drive.example.org", "tlsSecret": "tls"}
	})
	var settings map[string]any
	text, _ := at(t, objects["ConfigMap"], "data", "config.yaml").(string)
	if err := yaml.Unmarshal([]byte(text), &settings); err != nil || settings["default-quota"] != "50GiB" {
		t.Errorf("the settings are %q: %v", text, err)
	}
	pod := at(t, objects["StatefulSet"], "spec", "template", "spec")
	if got := at(t, pod, "containers", 0, "envFrom", 0, "secretRef", "name"); got != "smartdrive-secrets" {
		t.Errorf("the secret is %v", got)
	}
	if got := at(t, pod, "nodeSelector", "disk"); got != "large" {
		t.Errorf("the node has disk %v", got)
	}
	if got := at(t, objects["Ingress"], "spec", "tls", 0, "secretName"); got != "tls" {
		t.Errorf("the certificate is %v", got)
	}
}

func TestReplaceableKeepsForeignDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := replaceable(dir); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceable(dir); err == nil {
		t.Error("a directory with other files would be deleted")
	}
}
