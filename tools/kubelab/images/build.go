package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// architecture is that of the machine: a lab runs nothing of another.
const architecture = runtime.GOARCH

// Options say what to build from what.
type Options struct {
	Root  string // of the repository
	Cache string // folder for what need not be built again
	// Tag of the broker's image, beside "latest"; "": the one the chart asks for.
	BrokerTag string
	// Release is the release number built into the broker; "": it names its commit.
	Release string
	Say     func(format string, args ...any) // progress; nil: none

	wanted wanted
}

// Users of images that do not run as root.
const (
	nobody       = 65532
	postgresUser = 70
)

// Build builds every image.
func Build(ctx context.Context, o Options) (Set, error) {
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	var err error
	if o.wanted, err = readWanted(o.Root); err != nil {
		return nil, err
	}
	broker, err := Broker(ctx, o)
	if err != nil {
		return nil, err
	}
	set := Set{broker}
	for _, make := range []func(context.Context, Options) (recipe, error){pause, coreDNS, toolbox, nats, reloader, postgreSQL, timescale, prometheus} {
		r, err := make(ctx, o)
		if err != nil {
			return nil, err
		}
		image, err := r.make(filepath.Join(o.Cache, "layers"))
		if err != nil {
			return nil, err
		}
		set = append(set, image)
		o.Say("image %s:%s", image.Name, image.Tags[0])
	}
	return set, nil
}

// BrokerName is the broker's image as it is shipped.
const BrokerName = "maestrohub/uns-broker"

// Broker builds the broker's image alone, with the tool that builds the shipped one.
func Broker(ctx context.Context, o Options) (Image, error) {
	made := Image{Name: BrokerName, Tags: []string{"latest"}}
	if o.BrokerTag == "" {
		w, err := readWanted(o.Root)
		if err != nil {
			return made, err
		}
		o.BrokerTag = w.broker
	}
	made.Tags = append(made.Tags, o.BrokerTag)
	folder := filepath.Join(o.Cache, "broker")
	cmd := exec.CommandContext(ctx, "go", "run", "./tools/image", "-platforms", "linux/"+architecture, "-release", o.Release, "-layout", folder)
	cmd.Dir = o.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return made, fmt.Errorf("build the broker's image: %w\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return made, fmt.Errorf("read the broker's image: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		return made, fmt.Errorf("read the broker's image: %d entries in its layout (%w)", len(manifest.Manifests), err)
	}
	if made.index, err = index.ImageIndex(manifest.Manifests[0].Digest); err != nil {
		return made, fmt.Errorf("read the broker's image: %w", err)
	}
	return made, nil
}

// compile builds a static program of a module of this repository and returns its
// path in the cache.
func compile(ctx context.Context, o Options, module, pkg, program string) (string, error) {
	to := filepath.Join(o.Cache, "programs", program)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", to, pkg)
	cmd.Dir = filepath.Join(o.Root, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return to, nil
}

func pause(ctx context.Context, o Options) (recipe, error) {
	program, err := compile(ctx, o, "tools/kubelab", "./images/pause", "pause")
	files := tree{}
	files.program("pause", program)
	return recipe{name: "pause", tags: []string{"3.10"}, files: files, config: v1.Config{
		Entrypoint: []string{"/pause"}, User: "65535:65535",
	}}, err
}

func coreDNS(ctx context.Context, o Options) (recipe, error) {
	program, err := compile(ctx, o, "tools/kubelab/kubernetes", "./coredns", "coredns")
	files := tree{}
	files.program("coredns", program)
	return recipe{name: "kubelab/coredns", tags: []string{"latest"}, files: files, config: v1.Config{
		Entrypoint: []string{"/coredns"}, WorkingDir: "/",
	}}, err
}

// toolbox is what a test runs in a pod: the checks of images/toolbox, and a shell.
func toolbox(ctx context.Context, o Options) (recipe, error) {
	program, err := compile(ctx, o, "tools/kubelab", "./images/toolbox", "toolbox")
	if err != nil {
		return recipe{}, err
	}
	files := tree{}
	files.users(map[string]int{"nobody": nobody})
	files.program("toolbox", program)
	files.folder("tmp", 0)
	const busybox = "/bin/busybox"
	applets, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return recipe{}, fmt.Errorf("list the commands of %s (tools/setup/install lab installs it): %w", busybox, err)
	}
	files.program("bin/busybox", busybox)
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" {
			files["bin/"+name] = file{link: "busybox"}
		}
	}
	return recipe{name: "kubelab/toolbox", tags: []string{"latest"}, files: files, config: v1.Config{
		Entrypoint: []string{"/toolbox"}, Cmd: []string{"wait"}, User: fmt.Sprintf("%d:%d", nobody, nobody),
		Env: []string{"PATH=/bin:/"},
	}}, files.libraries(ctx)
}

func nats(ctx context.Context, o Options) (recipe, error) {
	const module = "github.com/nats-io/nats-server/v2"
	if err := peer(o.Root, module, o.wanted.nats, "chart/charts/nats"); err != nil {
		return recipe{}, err
	}
	program, err := compile(ctx, o, "tools/peers", module, "nats-server")
	if err != nil {
		return recipe{}, err
	}
	files := tree{}
	files.users(map[string]int{"nats": 1000})
	files.program("usr/local/bin/nats-server", program)
	files.folder("tmp", 0)
	version := o.wanted.nats
	return recipe{name: "library/nats", tags: []string{version + "-alpine", version, "latest"}, files: files, config: v1.Config{
		Entrypoint: []string{"/usr/local/bin/nats-server"}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
	}}, nil
}

// reloader tells a nats-server beside it that a file has changed.
func reloader(ctx context.Context, o Options) (recipe, error) {
	const module = "github.com/nats-io/nack"
	if err := peer(o.Root, module, o.wanted.reloader.Tag, "chart/charts/nats"); err != nil {
		return recipe{}, err
	}
	program, err := compile(ctx, o, "tools/peers", module+"/cmd/nats-server-config-reloader", "nats-server-config-reloader")
	files := tree{}
	files.users(map[string]int{"nats": 1000})
	files.program("usr/local/bin/nats-server-config-reloader", program)
	return recipe{name: o.wanted.reloader.Repository, tags: []string{o.wanted.reloader.Tag}, files: files, config: v1.Config{
		Entrypoint: []string{"/usr/local/bin/nats-server-config-reloader"}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
	}}, err
}

func postgreSQL(ctx context.Context, o Options) (recipe, error) {
	entry, err := compile(ctx, o, "tools/kubelab", "./images/postgres", "postgres-entry")
	if err != nil {
		return recipe{}, err
	}
	const version = "15" // Debian 12's
	const programs = "/usr/lib/postgresql/" + version + "/bin"
	files := tree{}
	files.merged()
	files.users(map[string]int{"postgres": postgresUser})
	files.program("usr/local/bin/entry", entry)
	files.folder("tmp", 0)
	files.folder("var/lib/postgresql/data", postgresUser)
	// The compiler of expressions weighs more than all the rest, and is optional.
	wanted := func(path string) bool {
		return !strings.Contains(path, "llvmjit") && !strings.Contains(path, "/bitcode/")
	}
	if err := files.packageFiles(ctx, []string{"postgresql-" + version, "postgresql-client-" + version},
		[]string{"/usr/lib/postgresql/" + version, "/usr/share/postgresql/" + version}, wanted); err != nil {
		return recipe{}, err
	}
	if err := files.packageFiles(ctx, []string{"tzdata"}, []string{"/usr/share/zoneinfo/Etc"}, wanted); err != nil {
		return recipe{}, err
	}
	files.program("usr/bin/sh", "/bin/dash") // initdb starts the server through a shell
	return recipe{name: "library/postgres", tags: []string{version, "latest"}, files: files, config: v1.Config{
		Entrypoint: []string{"/usr/local/bin/entry"}, User: fmt.Sprintf("%d:%d", postgresUser, postgresUser),
		Env: []string{"PATH=" + programs + ":/usr/bin", "PGDATA=/var/lib/postgresql/data/pgdata", "LANG=C"},
	}}, files.libraries(ctx)
}

// timescale stands in for the image of the chart's bundled database: PostgreSQL
// without the extension, which Debian does not have.
func timescale(ctx context.Context, o Options) (recipe, error) {
	r, err := postgreSQL(ctx, o)
	r.name, r.tags = o.wanted.timescale.Repository, []string{o.wanted.timescale.Tag}
	return r, err
}

func prometheus(ctx context.Context, _ Options) (recipe, error) {
	files := tree{}
	files.merged()
	files.users(map[string]int{"nobody": nobody})
	files.folder("tmp", 0)
	files.folder("prometheus", nobody)
	files.program("usr/bin/prometheus", "/usr/bin/prometheus")
	files.program("usr/bin/promtool", "/usr/bin/promtool")
	return recipe{name: "prom/prometheus", tags: []string{"latest"}, files: files, config: v1.Config{
		Entrypoint: []string{"/usr/bin/prometheus"}, User: fmt.Sprintf("%d:%d", nobody, nobody), WorkingDir: "/prometheus",
		Env: []string{"PATH=/usr/bin"},
	}}, files.libraries(ctx)
}
