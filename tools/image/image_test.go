package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// tiny returns options that package a program of a few lines.
func tiny(t *testing.T) options {
	t.Helper()
	certificates := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(certificates, []byte("certificates\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return options{
		Package: "./testdata/tiny", Release: "1.2.3", Reference: "example/tiny:1.2.3",
		Platforms: []string{"linux/amd64", "linux/arm64"}, Ports: []string{"1883/tcp", "8080/tcp"},
		Certificates: certificates, Created: time.Unix(1_700_000_000, 0).UTC(),
	}
}

// read unpacks an archive and returns the one index it holds.
func read(t *testing.T, archive string) (v1.ImageIndex, v1.Descriptor) {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, content, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("archive holds %d entries (%v), want one index", len(manifest.Manifests), err)
	}
	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, manifest.Manifests[0]
}

// files returns the entries of all layers and the content of the program.
func files(t *testing.T, image v1.Image) (map[string]*tar.Header, []byte) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]*tar.Header{}
	var program []byte
	for _, layer := range layers {
		if mediaType, err := layer.MediaType(); err != nil || mediaType != types.OCILayer {
			t.Errorf("layer of media type %s (%v), want %s", mediaType, err, types.OCILayer)
		}
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			entries[h.Name] = h
			if h.Name == "broker" {
				if program, err = io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
			}
		}
		content.Close()
	}
	return entries, program
}

func TestTheArchiveHoldsAStaticNonRootImageForEachPlatform(t *testing.T) {
	o := tiny(t)
	index, err := build(o)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := writeArchive(archive, index, o); err != nil {
		t.Fatal(err)
	}
	index, descriptor := read(t, archive)
	if name := descriptor.Annotations["org.opencontainers.image.ref.name"]; name != o.Reference {
		t.Errorf("archive names the image %q, want %q", name, o.Reference)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
	for _, d := range manifest.Manifests {
		platform := d.Platform.OS + "/" + d.Platform.Architecture
		t.Run(platform, func(t *testing.T) {
			want, ok := machines[platform]
			if !ok {
				t.Fatalf("image for %s was not asked for", platform)
			}
			delete(machines, platform)
			image, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkConfig(t, image, o, d.Platform)
			entries, program := files(t, image)
			for name, mode := range map[string]int64{"broker": 0o755, "etc/passwd": 0o644,
				"etc/ssl/certs/ca-certificates.crt": 0o644, "var/lib/maestrohub/": 0o750, "tmp/": 0o1777} {
				h := entries[name]
				if h == nil {
					t.Errorf("%s is not in the image", name)
					continue
				}
				if h.Mode != mode || !h.ModTime.Equal(o.Created) {
					t.Errorf("%s has mode %o and time %s, want %o and %s", name, h.Mode, h.ModTime, mode, o.Created)
				}
			}
			if owner := entries["var/lib/maestrohub/"].Uid; owner != user {
				t.Errorf("the data folder belongs to %d, want %d", owner, user)
			}
			binary, err := elf.NewFile(bytes.NewReader(program))
			if err != nil {
				t.Fatal(err)
			}
			if binary.Machine != want {
				t.Errorf("program for %s, want %s", binary.Machine, want)
			}
			if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 {
				t.Errorf("program needs %v (%v), want a static one", libraries, err)
			}
		})
	}
	for platform := range machines {
		t.Errorf("no image for %s", platform)
	}
}

func checkConfig(t *testing.T, image v1.Image, o options, platform *v1.Platform) {
	t.Helper()
	if mediaType, err := image.MediaType(); err != nil || mediaType != types.OCIManifestSchema1 {
		t.Errorf("manifest of media type %s (%v), want %s", mediaType, err, types.OCIManifestSchema1)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if file.OS != platform.OS || file.Architecture != platform.Architecture {
		t.Errorf("configuration for %s/%s, want %s/%s", file.OS, file.Architecture, platform.OS, platform.Architecture)
	}
	if c.User != "65532:65532" {
		t.Errorf("runs as %q, want 65532:65532", c.User)
	}
	if !slices.Equal(c.Entrypoint, []string{"/broker"}) {
		t.Errorf("entrypoint %q, want /broker", c.Entrypoint)
	}
	for _, port := range o.Ports {
		if _, ok := c.ExposedPorts[port]; !ok {
			t.Errorf("port %s is not exposed", port)
		}
	}
	if c.Labels["org.opencontainers.image.version"] != o.Release || c.Labels["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("labels %v, want release %s and the licence", c.Labels, o.Release)
	}
}

func TestTheSameSourceGivesTheSameDigest(t *testing.T) {
	o := tiny(t)
	o.Platforms = o.Platforms[:1]
	var digests []string
	for range 2 {
		index, err := build(o)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest.String())
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds gave %s and %s", digests[0], digests[1])
	}
}

func TestAHostWithoutCertificatesStillBuilds(t *testing.T) {
	o := tiny(t)
	o.Platforms, o.Certificates = o.Platforms[:1], filepath.Join(t.TempDir(), "absent")
	if _, err := build(o); err != nil {
		t.Fatal(err)
	}
}

// The broker has the variable that the release is linked into.
func TestTheBrokerTakesItsRelease(t *testing.T) {
	const folder = "../../broker"
	sources, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(releaseVariable, ".")
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range file.Decls {
			group, is := declared.(*ast.GenDecl)
			if !is || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if name.Name == want {
						return
					}
				}
			}
		}
	}
	t.Errorf("%s declares no variable %s", folder, want)
}

func TestWrongInputIsNamed(t *testing.T) {
	if _, err := sourceDate("yesterday"); err == nil {
		t.Error("SOURCE_DATE_EPOCH=yesterday was taken")
	}
	if _, err := compile("./testdata/tiny", "amd64", ""); err == nil {
		t.Error("platform amd64 was taken, without an operating system")
	}
	if err := run(options{}, "", ""); err == nil {
		t.Error("a run without -output and -layout did not fail")
	}
}
