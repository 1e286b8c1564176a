package images

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// sample is a small image of every kind of entry.
func sample(t *testing.T) recipe {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := tree{}
	files.users(map[string]int{"somebody": 70})
	files.program("usr/bin/program", program)
	files.folder("data", 70)
	files["bin/sh"] = file{link: "../usr/bin/program"}
	return recipe{name: "a/sample", tags: []string{"1.0", "latest"}, files: files, config: v1.Config{User: "70:70"}}
}

// entries are the headers of an image's only layer by name.
func entries(t *testing.T, i Image) map[string]*tar.Header {
	t.Helper()
	layers, err := i.image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	found := map[string]*tar.Header{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = h
	}
}

func TestAnImageHoldsItsFilesUnderFoldersOfTheirOwn(t *testing.T) {
	i, err := sample(t).make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got := entries(t, i)
	if h := got["usr/bin/program"]; h == nil || h.Mode != 0o755 || h.Size != int64(len("binary")) {
		t.Errorf("the program: %+v", h)
	}
	if h := got["data/"]; h == nil || h.Uid != 70 || h.Mode != 0o700 {
		t.Errorf("a user's folder: %+v", h)
	}
	if h := got["bin/sh"]; h == nil || h.Linkname != "../usr/bin/program" {
		t.Errorf("the link: %+v", h)
	}
	for _, folder := range []string{"usr/", "usr/bin/", "bin/", "etc/"} {
		if got[folder] == nil {
			t.Errorf("there is no entry for %s", folder)
		}
	}
	config, err := i.image.ConfigFile()
	if err != nil || config.OS != "linux" || config.Architecture != architecture || config.Config.User != "70:70" {
		t.Errorf("%+v, %v", config, err)
	}
}

func TestAnImageIsMadeAgainOnlyWhenItsFilesChange(t *testing.T) {
	cache, r := t.TempDir(), sample(t)
	digest := func() string {
		i, err := r.make(cache)
		if err != nil {
			t.Fatal(err)
		}
		d, err := i.image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	first := digest()
	kept, err := filepath.Glob(filepath.Join(cache, "a/sample", "*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%q, %v", kept, err)
	}
	before, err := os.Stat(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	if again := digest(); again != first {
		t.Errorf("the same files gave %s, then %s", first, again)
	}
	if after, err := os.Stat(kept[0]); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("it was made again: %v", err)
	}
	if err := os.WriteFile(r.files["usr/bin/program"].source, []byte("BINARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed := digest(); changed == first {
		t.Error("another file of the same size gave the same image")
	}
	if kept, err := filepath.Glob(filepath.Join(cache, "a/sample", "*")); err != nil || len(kept) != 1 {
		t.Errorf("the cache keeps %q, %v", kept, err)
	}
}

func TestAPushedImageIsFoundUnderEveryTag(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	i, err := sample(t).make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	set := Set{i}
	if err := set.Push(t.Context(), host, true); err != nil {
		t.Fatal(err)
	}
	if err := Answers(t.Context(), host); err != nil {
		t.Error(err)
	}
	for _, reference := range set.References(host) {
		to, err := name.ParseReference(reference, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := remote.Image(to); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
	}
	server.Close()
	if err := set.Push(t.Context(), host, true); err == nil || !strings.Contains(err.Error(), "push a/sample:1.0 to "+host) {
		t.Errorf("to a registry that is gone: %v", err)
	}
}

func TestAFileThatIsGoneIsNamed(t *testing.T) {
	r := sample(t)
	r.files.program("usr/bin/other", "/no/such/program")
	if _, err := r.make(t.TempDir()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("%v", err)
	}
}

func TestLibrariesAreThoseTheLoaderFinds(t *testing.T) {
	files := tree{}
	files.program("bin/ls", "/bin/ls") // dynamic on every Debian
	if err := files.libraries(t.Context()); err != nil {
		t.Fatal(err)
	}
	libc, loader := false, false
	for path, f := range files {
		libc = libc || strings.HasSuffix(path, "/libc.so.6")
		loader = loader || strings.Contains(path, "/ld-linux")
		if strings.HasPrefix(path, "lib") {
			t.Errorf("%s is not below usr", path)
		}
		if info, err := os.Lstat(f.source); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			t.Errorf("%s comes from %s: %v", path, f.source, err)
		}
	}
	if !libc || !loader {
		t.Errorf("ls needs %v", files.paths())
	}
}

func TestTheChartsAskForWhatIsBuilt(t *testing.T) {
	root := "../../.."
	w, err := readWanted(root)
	if err != nil {
		t.Fatal(err)
	}
	for module, version := range map[string]string{"github.com/nats-io/nats-server/v2": w.nats, "github.com/nats-io/nack": w.reloader.Tag} {
		if err := peer(root, module, version, "the chart"); err != nil {
			t.Error(err)
		}
		if err := peer(root, module, "0.0.1", "the chart"); err == nil || !strings.Contains(err.Error(), version) {
			t.Errorf("another version of %s than is built: %v", module, err)
		}
	}
}
