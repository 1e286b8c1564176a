package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// recipe is an image before it is made.
type recipe struct {
	name   string // without registry and tag
	tags   []string
	files  tree
	config v1.Config
}

// Image is a finished image under its names.
type Image struct {
	Name string
	Tags []string
	// One of the two: an image for this architecture, or an index as it is shipped.
	image v1.Image
	index v1.ImageIndex
}

// Set is all images of a lab.
type Set []Image

// make makes the image, or finds it in the cache.
func (r recipe) make(cache string) (Image, error) {
	made := Image{Name: r.name, Tags: r.tags}
	digest, err := r.files.digest()
	if err != nil {
		return made, fmt.Errorf("make image %s: %w", r.name, err)
	}
	folder := filepath.Join(cache, filepath.FromSlash(r.name))
	layer, err := cached(folder, digest)
	if errors.Is(err, fs.ErrNotExist) {
		layer, err = r.pack(folder, digest)
	}
	if err != nil {
		return made, fmt.Errorf("make image %s: %w", r.name, err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return made, fmt.Errorf("make image %s: %w", r.name, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return made, fmt.Errorf("make image %s: %w", r.name, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", architecture, r.config
	if made.image, err = mutate.ConfigFile(image, config); err != nil {
		return made, fmt.Errorf("make image %s: %w", r.name, err)
	}
	return made, nil
}

// cached returns the layer of a digest, kept in <folder>/<digest> as an OCI layout
// of an image with that one layer.
func cached(folder, digest string) (v1.Layer, error) {
	at, err := layout.FromPath(filepath.Join(folder, digest))
	if err != nil {
		return nil, fs.ErrNotExist // absent, or half written by another release
	}
	index, err := at.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		return nil, errors.Join(fs.ErrNotExist, err)
	}
	image, err := at.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		return nil, errors.Join(fs.ErrNotExist, err)
	}
	return layers[0], nil
}

// pack makes the layer and keeps it instead of the ones before.
func (r recipe) pack(folder, digest string) (v1.Layer, error) {
	layer, err := r.files.layer()
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	partial := filepath.Join(folder, ".partial")
	at, err := layout.Write(partial, empty.Index)
	if err != nil {
		return nil, err
	}
	if err := at.AppendImage(image); err != nil {
		return nil, err
	}
	if err := os.Rename(partial, filepath.Join(folder, digest)); err != nil {
		return nil, err
	}
	return cached(folder, digest)
}

// References are the names under which Push makes the images known.
func (s Set) References(registry string) []string {
	var all []string
	for _, i := range s {
		for _, tag := range i.Tags {
			all = append(all, registry+"/"+i.Name+":"+tag)
		}
	}
	sort.Strings(all)
	return all
}

// Push pushes every image to a registry ("host:port" or "host/path"); plain speaks
// HTTP to it. Credentials are those of `docker login`.
func (s Set) Push(ctx context.Context, registry string, plain bool) error {
	for _, i := range s {
		for _, tag := range i.Tags {
			if err := i.push(ctx, registry+"/"+i.Name+":"+tag, plain); err != nil {
				return fmt.Errorf("push %s:%s to %s: %w", i.Name, tag, registry, err)
			}
		}
	}
	return nil
}

func (i Image) push(ctx context.Context, reference string, plain bool) error {
	var options []name.Option
	if plain {
		options = append(options, name.Insecure)
	}
	to, err := name.ParseReference(reference, options...)
	if err != nil {
		return err
	}
	with := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if i.index != nil {
		return remote.WriteIndex(to, i.index, with...)
	}
	return remote.Write(to, i.image, with...)
}

// Answers reports, as an error, that a registry that speaks HTTP does not answer.
func Answers(ctx context.Context, registry string) error {
	to, err := name.NewRegistry(registry, name.Insecure)
	if err != nil {
		return err
	}
	_, err = remote.Catalog(ctx, to)
	return err
}
