package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/rdma-dev/dra-driver-rdma/packaging/perftest"
)

// sbom writes the bill of materials of an artifact in CycloneDX: each program, with its
// checksum, and the Go modules that it was linked from, as the toolchain wrote them into
// the program itself. It names nothing of the building host.
func (r *run) sbom(ctx context.Context, artifact string, programs ...string) (string, error) {
	return r.sbomWith(ctx, artifact, nil, programs...)
}

// sbomWith is sbom of an artifact that has packages of Debian, too.
func (r *run) sbomWith(ctx context.Context, artifact string, packages []perftest.Package, programs ...string) (string,
	error) {
	name := artifact + ".cdx.json"
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.Date.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: artifact, Type: cdx.ComponentTypeApplication, Name: artifact, Version: r.Version},
	}
	components := map[string]cdx.Component{}
	var dependencies []cdx.Dependency
	var tops []string
	for _, path := range programs {
		top, modules, err := r.components(ctx, path)
		if err != nil {
			return "", fmt.Errorf("write bill of materials %s: %w", name, err)
		}
		components[top.BOMRef] = top
		for _, m := range modules {
			components[m.BOMRef] = m
		}
		tops = append(tops, top.BOMRef)
		dependencies = append(dependencies, dependency(top.BOMRef, modules))
	}
	for _, p := range packages {
		c := debian(p)
		components[c.BOMRef] = c
		tops = append(tops, c.BOMRef)
	}
	list := slices.SortedFunc(maps.Values(components), func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	dependencies = append([]cdx.Dependency{{Ref: artifact, Dependencies: &tops}}, dependencies...)
	bom.Components, bom.Dependencies = &list, &dependencies
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return "", fmt.Errorf("write bill of materials %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(r.work, name), b.Bytes(), 0o644); err != nil {
		return "", fmt.Errorf("write bill of materials: %w", err)
	}
	return name, nil
}

// components returns a program, and the modules that it was linked from.
func (r *run) components(ctx context.Context, path string) (cdx.Component, []cdx.Component, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return cdx.Component{}, nil, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return cdx.Component{}, nil, err
	}
	program := cdx.Component{
		BOMRef: filepath.Base(path), Type: cdx.ComponentTypeApplication, Name: filepath.Base(path), Version: r.Version,
		PackageURL: packageURL(info.Main.Path, r.Version),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(content))}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	materials, err := r.materialsOf(ctx, path)
	var modules []cdx.Component
	for _, m := range materials {
		modules = append(modules, library(m))
	}
	return program, modules, err
}

// library is a Go module. Its checksum is that of go.sum, which is a SHA-256 over the
// module's files (golang.org/x/mod/sumdb/dirhash).
func library(m material) cdx.Component {
	c := cdx.Component{
		BOMRef: packageURL(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
		PackageURL: packageURL(m.Path, m.Version),
	}
	// A document has either one expression or a list of licenses.
	if len(m.spdx) == 1 {
		c.Licenses = &cdx.Licenses{{License: &cdx.License{ID: m.spdx[0]}}}
	} else {
		c.Licenses = &cdx.Licenses{{Expression: strings.Join(m.spdx, " AND ")}}
	}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == sha256.Size {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}

// debian is a package of Debian, with the checksum of its file.
func debian(p perftest.Package) cdx.Component {
	c := cdx.Component{
		Type: cdx.ComponentTypeLibrary, Name: p.Name, Version: p.Version,
		PackageURL: "pkg:deb/debian/" + p.Name + "@" + escape(p.Version) + "?arch=" + p.Arch + "&distro=bookworm",
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.SHA256}},
		Licenses:   &cdx.Licenses{{Expression: p.License}},
	}
	c.BOMRef = c.PackageURL
	return c
}

// packageURL is the name of a Go module in https://github.com/package-url/purl-spec.
func packageURL(path, version string) string {
	return "pkg:golang/" + path + "@" + escape(version)
}

func escape(version string) string {
	return strings.NewReplacer("+", "%2B", ":", "%3A").Replace(version)
}

func dependency(ref string, on []cdx.Component) cdx.Dependency {
	var refs []string
	for _, c := range on {
		refs = append(refs, c.BOMRef)
	}
	slices.Sort(refs)
	return cdx.Dependency{Ref: ref, Dependencies: &refs}
}
