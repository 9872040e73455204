package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes the bill of materials in the format of CycloneDX: the modules that the linker
// put into the binaries, the Go version, and the npm packages that the web pages are built from.
func (r *release) writeSBOM(context.Context) error {
	components := map[string]cyclonedx.Component{}
	for _, p := range r.platforms {
		info, err := buildinfo.ReadFile(r.binary(p))
		if err != nil {
			return err
		}
		add(components, "golang", "std", strings.TrimPrefix(info.GoVersion, "go"), nil)
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			add(components, "golang", m.Path, m.Version, nil)
		}
	}
	if err := r.addPages(components); err != nil {
		return err
	}
	product := cyclonedx.Component{
		BOMRef: "pkg:golang/" + r.module + "@" + r.version, Type: cyclonedx.ComponentTypeApplication, Name: "smartdrive", Version: r.version,
		PackageURL: "pkg:golang/" + r.module + "@" + r.version, Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
	}
	refs := slices.Sorted(maps.Keys(components))
	all := make([]cyclonedx.Component, len(refs))
	for i, ref := range refs {
		all[i] = components[ref]
	}
	bom := cyclonedx.NewBOM()
	id := sha256.Sum256([]byte(r.module + "\x00" + r.version + "\x00" + r.commit))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8: the same in every build
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.date.Format(time.RFC3339), Component: &product,
		Properties: &[]cyclonedx.Property{{Name: "smartdrive:commit", Value: r.commit}},
	}
	bom.Components = &all
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: product.BOMRef, Dependencies: &refs}}
	return create(filepath.Join(r.dist, fmt.Sprintf("smartdrive_%s.cdx.json", r.version)), func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// add adds a library of a kind of package URL.
func add(to map[string]cyclonedx.Component, kind, name, version string, hashes *[]cyclonedx.Hash) {
	url := fmt.Sprintf("pkg:%s/%s@%s", kind, strings.Replace(name, "@", "%40", 1), version)
	to[url] = cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url, Hashes: hashes}
}

// addPages adds the npm packages that become part of the web pages.
func (r *release) addPages(to map[string]cyclonedx.Component) error {
	text, err := os.ReadFile(filepath.Join(r.root, "web/package-lock.json"))
	if err != nil {
		return err
	}
	var lock struct {
		Packages map[string]struct {
			Version, Integrity string
			Dev, Link          bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return fmt.Errorf("web/package-lock.json: %w", err)
	}
	for place, p := range lock.Packages {
		i := strings.LastIndex(place, "node_modules/")
		if i < 0 || p.Dev || p.Link {
			continue // the pages themselves, and what only builds them
		}
		var hashes *[]cyclonedx.Hash
		if sum, ok := strings.CutPrefix(p.Integrity, "sha512-"); ok {
			raw, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return fmt.Errorf("web/package-lock.json: %s: %w", place, err)
			}
			hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA512, Value: hex.EncodeToString(raw)}}
		}
		add(to, "npm", place[i+len("node_modules/"):], p.Version, hashes)
	}
	return nil
}
