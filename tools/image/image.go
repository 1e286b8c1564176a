package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// options say what image to build.
type options struct {
	Package      string // main package, as go build takes it
	Release      string
	Reference    string // name:tag, for the tools that import the archive
	Platforms    []string
	Ports        []string // "1883/tcp"
	Certificates string   // path of a CA bundle; left out if absent
	Created      time.Time
}

// build returns an index with one image per platform.
func build(o options) (v1.ImageIndex, error) {
	certificates, err := os.ReadFile(o.Certificates)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read CA certificates: %w", err)
	}
	base, err := pack(baseFiles(certificates), o.Created)
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range o.Platforms {
		binary, err := compile(o.Package, platform, o.Release)
		if err != nil {
			return nil, err
		}
		program, err := pack([]file{{path: "broker", mode: 0o755, content: binary}}, o.Created)
		if err != nil {
			return nil, err
		}
		goos, goarch, _ := strings.Cut(platform, "/")
		image, err := assemble(o, goos, goarch, base, program)
		if err != nil {
			return nil, fmt.Errorf("assemble image for %s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: goos, Architecture: goarch}},
		})
	}
	return index, nil
}

// assemble puts configuration and manifest around the layers.
func assemble(o options, goos, goarch string, layers ...v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, layer := range layers {
		var err error
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:   layer,
			History: v1.History{Created: v1.Time{Time: o.Created}, CreatedBy: "tools/image"},
		})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = goos, goarch
	config.Created = v1.Time{Time: o.Created}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Entrypoint:   []string{"/broker"},
		Cmd:          []string{"run", "--config", "/etc/maestrohub/config.yaml"},
		WorkingDir:   "/var/lib/maestrohub",
		ExposedPorts: map[string]struct{}{},
		Labels:       labels(o),
	}
	for _, port := range o.Ports {
		config.Config.ExposedPorts[port] = struct{}{}
	}
	return mutate.ConfigFile(image, config)
}

// labels are the annotations the OCI image specification names.
func labels(o options) map[string]string {
	l := map[string]string{
		"org.opencontainers.image.title":       "uns-broker",
		"org.opencontainers.image.description": "MaestroHub UNS broker: MQTT 3.1, 3.1.1 and 5, stored before it is acknowledged",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.created":     o.Created.Format(time.RFC3339),
	}
	if o.Release != "" {
		l["org.opencontainers.image.version"] = o.Release
	}
	// Without git, or outside a checkout, there is no revision to name.
	if out, err := exec.Command("git", "rev-parse", "HEAD").Output(); err == nil {
		l["org.opencontainers.image.revision"] = strings.TrimSpace(string(out))
	}
	return l
}
