package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// writeChart packages the Helm chart of deploy/chart with the version of the release.
func (r *release) writeChart(context.Context) error {
	files, err := tree(filepath.Join(r.root, "deploy/chart"))
	if err != nil {
		return err
	}
	const version = "0.0.0-unreleased"
	for i := range files {
		if files[i].name == "Chart.yaml" {
			text := string(files[i].text)
			if strings.Count(text, version) != 2 {
				return fmt.Errorf("Chart.yaml has not %s as its version and as appVersion", version)
			}
			files[i].text = []byte(strings.ReplaceAll(text, version, r.version))
		}
		files[i].name = "smartdrive/" + files[i].name
	}
	return create(filepath.Join(r.dist, fmt.Sprintf("smartdrive-chart-%s.tgz", r.version)), func(w io.Writer) error { return writeTarGz(w, files, r.date) })
}
