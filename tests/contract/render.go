package contract

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	k8syaml "sigs.k8s.io/yaml"
)

// Install says how a chart is installed.
type Install struct {
	Chart     string
	Name      string // release; "" = maestrohub
	Namespace string // "" = maestrohub
	// Kubernetes is the version of the cluster; "" = 1.34.0.
	Kubernetes string
	// APIs are groups and kinds the cluster has besides Kubernetes's own.
	APIs []string
	// Values override those of the chart, as of one -f file.
	Values map[string]any
	// OnlyGuards renders nothing but what refuses values, which is faster.
	OnlyGuards bool
}

// Release is what an installation makes.
type Release struct {
	Objects []*Object
	Notes   string
}

// Object is one rendered object.
type Object struct {
	Template string // file it came from, below the chart
	YAML     []byte
	Fields   map[string]any
}

// Text is a field, "" if it is absent or not a text.
func (o *Object) Text(path ...string) string {
	s, _ := o.Field(path...).(string)
	return s
}

// Field is a field, nil if it is absent.
func (o *Object) Field(path ...string) any {
	var at any = o.Fields
	for _, name := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[name]
	}
	return at
}

// String is kind, namespace and name.
func (o *Object) String() string {
	return o.Text("kind") + " " + strings.TrimPrefix(o.Text("metadata", "namespace")+"/"+o.Text("metadata", "name"), "/")
}

// Render does what helm template does: values against the schema, subcharts by their
// conditions, templates.
func Render(i Install) (*Release, error) {
	c, err := load(i.Chart)
	if err != nil {
		return nil, err
	}
	if i.OnlyGuards {
		c.Templates = slices.DeleteFunc(c.Templates, func(f *chart.File) bool { return filepath.Ext(f.Name) != ".tpl" && f.Name != "templates/validate.yaml" })
	}
	values := copied(i.Values)
	if err := chartutil.ProcessDependenciesWithMerge(c, values); err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	kubernetes, err := chartutil.ParseKubeVersion(or(i.Kubernetes, "1.34.0"))
	if err != nil {
		return nil, err
	}
	if c.Metadata.KubeVersion != "" && !chartutil.IsCompatibleRange(c.Metadata.KubeVersion, kubernetes.String()) {
		return nil, fmt.Errorf("chart requires Kubernetes %s, is %s", c.Metadata.KubeVersion, kubernetes)
	}
	capabilities.KubeVersion = *kubernetes
	capabilities.APIVersions = append(slices.Clone(capabilities.APIVersions), i.APIs...)
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: or(i.Name, "maestrohub"), Namespace: or(i.Namespace, "maestrohub"), Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	r := &Release{}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		switch {
		case filepath.Base(file) == "NOTES.txt":
			if filepath.Dir(filepath.Dir(file)) == c.Name() {
				r.Notes = files[file]
			}
		case strings.HasPrefix(filepath.Base(file), "_"):
		default:
			if err := r.add(file, files[file]); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", file, err, files[file])
			}
		}
	}
	return r, nil
}

// load reads a chart's files once; what is made of them a rendering changes.
func load(dir string) (*chart.Chart, error) {
	once, _ := charts.LoadOrStore(dir, sync.OnceValues(func() ([]*loader.BufferedFile, error) { return bufferedFiles(dir) }))
	files, err := once.(func() ([]*loader.BufferedFile, error))()
	if err != nil {
		return nil, err
	}
	return loader.LoadFiles(files)
}

var charts sync.Map // folder -> func() ([]*loader.BufferedFile, error)

// bufferedFiles are the files helm would load, but for .helmignore, of which nothing
// is in a chart that is not installed with it.
func bufferedFiles(dir string) ([]*loader.BufferedFile, error) {
	var files []*loader.BufferedFile
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || filepath.Ext(name) == ".tgz" || strings.HasPrefix(name, "tests/") {
			return err
		}
		data, err := os.ReadFile(path)
		files = append(files, &loader.BufferedFile{Name: filepath.ToSlash(name), Data: data})
		return err
	})
	return files, err
}

// add takes the documents of one rendered file.
func (r *Release) add(file, text string) error {
	d := yaml.NewDecoder(strings.NewReader(text))
	for {
		var n yaml.Node
		if err := d.Decode(&n); err != nil {
			if err.Error() == "EOF" {
				return nil
			}
			return err
		}
		out, err := yaml.Marshal(&n)
		if err != nil {
			return err
		}
		o := &Object{Template: file, YAML: out}
		if err := k8syaml.UnmarshalStrict(out, &o.Fields); err != nil {
			return err
		}
		if len(o.Fields) > 0 {
			r.Objects = append(r.Objects, o)
		}
	}
}

// Of are the objects of a kind.
func (r *Release) Of(kind string) []*Object {
	var all []*Object
	for _, o := range r.Objects {
		if o.Text("kind") == kind {
			all = append(all, o)
		}
	}
	return all
}

// Object is the one of that kind and name, nil if there is none.
func (r *Release) Object(kind, name string) *Object {
	for _, o := range r.Of(kind) {
		if o.Text("metadata", "name") == name {
			return o
		}
	}
	return nil
}

// Typed is an object as Kubernetes reads it. What its type does not know is an
// error, as is a wrong type; known is false for a kind that is not Kubernetes's own.
func (o *Object) Typed() (object runtime.Object, known bool, err error) {
	group, err := schema.ParseGroupVersion(o.Text("apiVersion"))
	if err != nil {
		return nil, false, err
	}
	kind := group.WithKind(o.Text("kind"))
	if !scheme.Scheme.Recognizes(kind) {
		return nil, false, nil
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	object, _, err = decoder.Decode(o.YAML, nil, nil)
	return object, true, err
}

// ValuesFile reads a file of values.
func ValuesFile(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ReadValues(data)
	return values, err
}

// Merged are values with others over them, as a later -f file is.
func Merged(under, over map[string]any) map[string]any {
	out := copied(under)
	for key, value := range over {
		below, isMap := value.(map[string]any)
		was, wasMap := out[key].(map[string]any)
		if isMap && wasMap {
			out[key] = Merged(was, below)
			continue
		}
		out[key] = value
	}
	return out
}

// At is values with one value, by its path.
func At(path string, value any) map[string]any {
	names := strings.Split(path, ".")
	for _, name := range slices.Backward(names) {
		value = map[string]any{name: value}
	}
	return value.(map[string]any)
}

func copied(values map[string]any) map[string]any {
	out := make(map[string]any, len(values))
	for key, value := range values {
		if m, ok := value.(map[string]any); ok {
			value = copied(m)
		}
		out[key] = value
	}
	return out
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// equal says whether two releases are the same to the byte, and where they differ.
func equal(a, b *Release) error {
	if len(a.Objects) != len(b.Objects) {
		return fmt.Errorf("%d objects, then %d", len(a.Objects), len(b.Objects))
	}
	for i, o := range a.Objects {
		if !bytes.Equal(o.YAML, b.Objects[i].YAML) {
			return fmt.Errorf("%s: %s\nand then\n%s", o, o.YAML, b.Objects[i].YAML)
		}
	}
	return nil
}
