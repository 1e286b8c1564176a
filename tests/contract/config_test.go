package contract

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/replica"
)

// mounted is where the chart mounts what config.yaml names.
const mounted = "/etc/maestrohub/"

// configYAML is config.yaml of a release.
func configYAML(t *testing.T, r *Release) string {
	t.Helper()
	o := r.Object("ConfigMap", "maestrohub-uns-config")
	if o == nil {
		t.Fatal("no ConfigMap maestrohub-uns-config")
	}
	return o.Text("data", "config.yaml")
}

// loaded is a release's config.yaml as the broker reads it in the release's pod: with
// a file for each that the pod mounts, and no other.
func loaded(t *testing.T, r *Release) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for _, path := range mounts(t, r) {
		file := filepath.Join(dir, strings.TrimPrefix(path, mounted))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("postgres://what/the/secret/holds"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.ReplaceAll(configYAML(t, r), mounted, dir+"/")
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatalf("the broker refuses its configuration: %v\n%s", err, text)
	}
	for key, path := range map[string]string{
		"brokerMesh.certFile": c.Mesh.CertFile, "brokerMesh.keyFile": c.Mesh.KeyFile, "brokerMesh.caFile": c.Mesh.CAFile, "nats.tls.caFile": c.NATS.TLS.CAFile, "nats.tls.certFile": c.NATS.TLS.CertFile,
		"nats.tls.keyFile": c.NATS.TLS.KeyFile, "embeddedBroker.tls.certFile": c.Broker.TLS.CertFile, "embeddedBroker.tls.keyFile": c.Broker.TLS.KeyFile,
		"embeddedBroker.tls.clientCAFile": c.Broker.TLS.ClientCAFile, "http.tls.certFile": c.HTTP.TLS.CertFile, "http.tls.keyFile": c.HTTP.TLS.KeyFile,
		"modelFile": c.ModelFile, "clientsFile": c.ClientsFile,
	} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %s is mounted in no pod", key, strings.Replace(path, dir+"/", mounted, 1))
		}
	}
	return c
}

// mounts are the files below /etc/maestrohub in the broker's container.
func mounts(t *testing.T, r *Release) []string {
	t.Helper()
	spec := statefulSet(t, r).Spec.Template.Spec
	files := make(map[string][]string) // of a volume
	for _, v := range spec.Volumes {
		switch {
		case v.Secret != nil && len(v.Secret.Items) == 0:
			files[v.Name] = []string{"tls.crt", "tls.key", "ca.crt"} // what a certificate's Secret holds
		case v.Secret != nil:
			files[v.Name] = paths(v.Secret.Items)
		case v.ConfigMap != nil:
			files[v.Name] = paths(v.ConfigMap.Items)
		case v.Projected != nil:
			for _, source := range v.Projected.Sources {
				files[v.Name] = append(files[v.Name], paths(source.Secret.Items)...)
			}
		}
	}
	var all []string
	for _, m := range spec.Containers[0].VolumeMounts {
		for _, file := range files[m.Name] {
			all = append(all, m.MountPath+"/"+file)
		}
	}
	return slices.DeleteFunc(all, func(path string) bool { return !strings.HasPrefix(path, mounted) })
}

func paths(items []corev1.KeyToPath) []string {
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = item.Path
	}
	return all
}

func statefulSet(t *testing.T, r *Release) *appsv1.StatefulSet {
	t.Helper()
	o := r.Object("StatefulSet", "maestrohub-uns")
	if o == nil {
		t.Fatal("no StatefulSet maestrohub-uns")
	}
	object, _, err := o.Typed()
	if err != nil {
		t.Fatal(err)
	}
	return object.(*appsv1.StatefulSet)
}

func TestTheBrokerTakesTheConfigurationOfEveryInstallation(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, r *Release) {
		c := loaded(t, r)
		if got := int(*statefulSet(t, r).Spec.Replicas); got != c.Replicas {
			t.Errorf("the StatefulSet has %d replicas, the configuration says %d", got, c.Replicas)
		}
	})
}

// With nothing set, every setting is the broker's own default, but for what a pod in
// a cluster needs.
func TestTheDefaultsOfTheChartAreTheBrokers(t *testing.T) {
	c := loaded(t, render(t, nil))
	want := config.Default()
	want.ClientsFile = c.ClientsFile
	want.Mesh.CertFile, want.Mesh.KeyFile, want.Mesh.CAFile = c.Mesh.CertFile, c.Mesh.KeyFile, c.Mesh.CAFile
	want.Mesh.Advertise = "{replicaId}.maestrohub-uns-headless.maestrohub.svc:7884"
	want.NATS.Servers = []string{"nats://maestrohub-nats.maestrohub-deps.svc:4222"}
	if text := fmt.Sprintf("%#v", emptied(*c)); text != fmt.Sprintf("%#v", emptied(*want)) {
		t.Errorf("differ:\n%s\nwant\n%#v", text, emptied(*want))
	}
	for _, v := range values(t).Settings() {
		row := v.Config
		if row.Form.List || v.Default.Tag == "!!null" {
			continue
		}
		if v.IsPort() {
			if ":"+v.Default.Value != row.Default {
				t.Errorf("%s: %s, and %s is %s by default", v.Path, v.Default.Value, row.Key, row.Default)
			}
			continue
		}
		if v.Default.Value != row.Default {
			t.Errorf("%s: %q, and %s is %q by default", v.Path, v.Default.Value, row.Key, row.Default)
		}
	}
}

// emptied has no list that is empty but there, which is the same to the broker.
func emptied(c config.Config) config.Config {
	v := reflect.ValueOf(&c).Elem()
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					walk(v.Field(i))
				}
			}
		case reflect.Slice:
			if v.Len() == 0 {
				v.SetZero()
			}
		}
	}
	walk(v)
	return c
}

func values(t *testing.T) *Value {
	t.Helper()
	v, err := ReadValues(folder + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The chart writes none of these by a value of the same meaning: they are paths and
// names in the pod.
var ofThePod = []string{"modelFile", "clientsFile", "dataDir", "replicaId", "brokerMesh.advertise", "brokerMesh.certFile", "brokerMesh.keyFile", "brokerMesh.caFile",
	"nats.password", "nats.tls.caFile", "nats.tls.certFile", "nats.tls.keyFile", "embeddedBroker.tls.certFile", "embeddedBroker.tls.keyFile",
	"embeddedBroker.tls.clientCAFile", "http.tls.certFile", "http.tls.keyFile", "historian.timescale.url"}

// Every setting of the broker is reached: by a value, by uns.config, or because the
// chart sets it for the pod. What the chart sets cannot be set beside it.
func TestEverySettingOfTheBrokerIsReached(t *testing.T) {
	byValue := make(map[string]string)
	for _, v := range values(t).Settings() {
		if other, twice := byValue[v.Config.Key]; twice {
			t.Errorf("%s is set by %s and by %s", v.Config.Key, other, v.Path)
		}
		byValue[v.Config.Key] = v.Path
	}
	for _, row := range config.Rows() {
		setting := row.Default
		if setting == "" {
			setting = "x"
		}
		refused := refusal(t, map[string]any{"uns": map[string]any{"config": At(row.Key, setting)}})
		taken := strings.Contains(refused, "ERROR: uns.config."+row.Key)
		path, has := byValue[row.Key]
		switch {
		case slices.Contains(ofThePod, row.Key), has:
			if !taken {
				t.Errorf("%s is the chart's (%s), and uns.config may set it too: %s", row.Key, path, refused)
			}
		case taken:
			t.Errorf("%s is set by no value, and uns.config may not set it", row.Key)
		case refused != "":
			t.Errorf("%s through uns.config: %s", row.Key, refused)
		}
	}
}

func TestSettingsWithoutAValueGoThroughConfig(t *testing.T) {
	r := render(t, map[string]any{"uns": map[string]any{"config": map[string]any{"liveMirror": map[string]any{"qos": 0}}}})
	if c := loaded(t, r); c.LiveMirror.QoS != 0 {
		t.Errorf("liveMirror.qos is %d, want 0", c.LiveMirror.QoS)
	}
}

// The names of the mission's page Configuration, chart value against config.yaml.
func TestTheDocumentedNamesAreTheChartsAndTheBrokers(t *testing.T) {
	byValue := make(map[string]string)
	for _, v := range values(t).Settings() {
		byValue[v.Path] = v.Config.Key
	}
	documented := map[string]string{
		"uns.replicas": "replicas", "global.natsReplicas": "nats.copies", "storage.type": "historian.type",
		"uns.mqtt.embedded.memberTTL": "brokerMemberTTL", "uns.mqtt.embedded.willStopGrace": "brokerWillStopGrace",
		"uns.mqtt.embedded.sessionLogAppendWait": "brokerSessionLogAppendWait", "uns.mqtt.embedded.sessionLogMaxBytes": "brokerSessionLogMaxBytes",
		"uns.mqtt.embedded.mesh.port": "brokerMesh.listen", "uns.mqtt.embedded.tls.disablePlaintext": "embeddedBroker.disablePlaintext",
		"uns.mqtt.embedded.tcpPort": "embeddedBroker.tcpListen", "uns.mqtt.embedded.tlsPort": "embeddedBroker.tlsListen", "uns.mqtt.embedded.webSocket.port": "embeddedBroker.webSocket.listen",
	}
	for _, limit := range []string{"maxClients", "maxPendingConnections", "maxConnectsAuthenticating", "maxConnectionsPerCredential", "trustClientAddresses", "maxConnectionsPerSource",
		"authFailureThreshold", "authFailureWindow", "authFailureBackoff", "authFailureBackoffMax", "maxConnectPacketBytes", "connectTimeout", "connectBudget", "maxKeepAlive",
		"maxSubscriptionsPerClient", "maxTopicLevels", "maxTopicBytes", "receiveMaximum", "maxClientWritesPending", "maxSubscriberQueue", "maxSessionExpiry", "maxOfflineSessions"} {
		documented["uns.mqtt.embedded.limits."+limit] = "embeddedBrokerLimits." + limit
	}
	for path, key := range documented {
		if byValue[path] != key {
			t.Errorf("%s should be %s, is %q", path, key, byValue[path])
		}
	}
	for path, want := range map[string]any{
		"uns.mqtt.mode": "embedded", "uns.mqtt.service.type": "ClusterIP", "uns.mqtt.embedded.mesh.certDurationDays": 3650, "uns.mqtt.embedded.tls.secretName": "",
		"uns.mqtt.embedded.tls.clientCA": false, "uns.mqtt.embedded.webSocket.enabled": false, "global.natsAuth.enabled": false, "global.natsAuth.secretName": "maestrohub-nats-auth",
		"global.natsTLS.enabled": false, "global.natsTLS.mutual": false, "global.natsTLS.secretName": "maestrohub-nats-client-tls", "networkPolicy.enabled": false,
		"uns.replicas": 1, "global.natsReplicas": 3, "nats.enabled": true,
	} {
		var got any
		values(t).Walk(func(v *Value) {
			if v.Path == path {
				if err := v.Default.Decode(&got); err != nil {
					t.Error(err)
				}
			}
		})
		if got != want {
			t.Errorf("%s is %v by default, documented is %v", path, got, want)
		}
	}
}

// Null keeps the broker's default, as leaving it out of config.yaml does.
func TestANullValueKeepsTheBrokersDefault(t *testing.T) {
	byDefault := loaded(t, render(t, nil))
	all := make(map[string]any)
	for _, v := range values(t).Settings() {
		if !strings.HasPrefix(v.Path, "externalNats.") {
			all = Merged(all, At(v.Path, nil))
		}
	}
	text := configYAML(t, render(t, all))
	for _, v := range values(t).Settings() {
		if !v.IsPort() && !strings.HasPrefix(v.Path, "externalNats.") && has(t, text, v.Config.Key) {
			t.Errorf("%s: null, and config.yaml still has %s", v.Path, v.Config.Key)
		}
	}
	c := loaded(t, render(t, all))
	c.ClientsFile, c.Mesh = byDefault.ClientsFile, byDefault.Mesh
	if got, want := fmt.Sprintf("%#v", emptied(*c)), fmt.Sprintf("%#v", emptied(*byDefault)); got != want {
		t.Errorf("all null:\n%s\nwant\n%s", got, want)
	}
}

// has says whether a config.yaml has a key.
func has(t *testing.T, text, key string) bool {
	t.Helper()
	var at any
	if err := yaml.Unmarshal([]byte(text), &at); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"modules", "uns"}, strings.Split(key, ".")...) {
		m, ok := at.(map[string]any)
		if !ok {
			return false
		}
		if at, ok = m[name]; !ok {
			return false
		}
	}
	return true
}

// The chart and the broker draw the line at the same place: the ends of every range
// are taken by both, what lies beyond by neither, and the chart's text names the value.
func TestTheRangesOfTheChartAreTheBrokers(t *testing.T) {
	taken := make([]map[string]any, 3) // the low ends, the high ends, and zero: an installation each
	wrong := make([]map[string]any, 4) // what the schema refuses, all at once
	beyond := make(map[string][]any)   // what a guard refuses, one at a time
	add := func(to []map[string]any, n int, path string, value any) {
		to[n] = Merged(to[n], At(path, value))
	}
	for _, v := range values(t).Settings() {
		form := v.Config.Form
		if form.List || v.IsPort() || v.Path == "global.natsReplicas" {
			continue // lists and copies: other tests
		}
		var inside, refused []any
		switch form.Sort {
		case config.Count:
			inside, refused = []any{form.Low, form.High}, []any{form.Low - 1, form.High + 1, "many", 1.5}
		case config.Bytes:
			inside, refused = []any{fmt.Sprint(form.Low), form.High}, []any{"many", "12 apples", form.High + 1}
			beyond[v.Path] = []any{fmt.Sprintf("%dB", form.Low-1), fmt.Sprintf("%dB", form.High+1)}
		case config.Duration:
			low, high := time.Duration(form.Low), time.Duration(form.High)
			inside, refused = []any{low.String(), fmt.Sprintf("%dms", high.Milliseconds())}, []any{"7", "soon", 7}
			beyond[v.Path] = []any{(high + time.Second).String()}
			if low > 0 {
				beyond[v.Path] = append(beyond[v.Path], (low - time.Nanosecond).String())
			}
		case config.Switch:
			refused = []any{"perhaps", 1}
		case config.Word:
			inside, refused = []any{form.Words[0], form.Words[len(form.Words)-1]}, []any{"another"}
		default:
			refused = []any{[]any{"a list"}}
		}
		for n, value := range inside {
			add(taken, n, v.Path, value)
			agree(t, v, value, true)
		}
		if form.Zero {
			add(taken, 2, v.Path, 0)
			agree(t, v, 0, true)
		}
		for n, value := range refused {
			add(wrong, n, v.Path, value)
			agree(t, v, value, false)
		}
		for _, value := range beyond[v.Path] {
			agree(t, v, value, false)
		}
	}
	// What the longest session log needs of the disks is the chart's own rule.
	database := Merged(At("storage.timescale.existingSecret", "database"), At("nats.config.jetstream.fileStore.pvc.size", "2Ti"))
	for _, all := range taken {
		if r := refusal(t, Merged(database, Merged(all, At("storage.type", "timescale")))); r != "" {
			t.Errorf("ends of ranges, refused: %s", r)
		}
	}
	for _, all := range wrong {
		r := refusal(t, all)
		for _, v := range values(t).Settings() {
			if given, set := lookedUp(all, v.Path); set && !strings.Contains(r, "'/"+strings.ReplaceAll(v.Path, ".", "/")+"'") {
				t.Errorf("%s: %v is not among what the schema refuses: %s", v.Path, given, r)
			}
		}
	}
	for path, all := range beyond {
		for _, value := range all {
			if r := refusal(t, At(path, value)); !strings.Contains(r, fmt.Sprintf("ERROR: %s (%v) must be ", path, value)) {
				t.Errorf("%s: %v: %q, want a refusal that names it", path, value, r)
			}
		}
	}
}

// agree holds the broker to what the chart is to say of a value.
func agree(t *testing.T, v *Value, value any, taken bool) {
	t.Helper()
	if err := parse(v.Config.Key, value); (err == nil) != taken {
		t.Errorf("%s: %v: the chart takes it: %v; the broker says %v", v.Path, value, taken, err)
	}
}

func lookedUp(values map[string]any, path string) (any, bool) {
	var at any = values
	for _, name := range strings.Split(path, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = m[name]; !ok {
			return nil, false
		}
	}
	return at, true
}

// parse says what the broker says of one setting alone.
func parse(key string, value any) error {
	text, err := yaml.Marshal(At("modules.uns."+key, value))
	if err != nil {
		return err
	}
	_, err = config.Parse(text)
	var refused *config.Error
	if errors.As(err, &refused) {
		for _, v := range refused.Violations {
			if at := "modules.uns." + key; v.Key == at && v.Line > 0 || strings.HasPrefix(v.Key, at+"[") {
				return err
			}
		}
		return nil // how settings fit together is another matter
	}
	return err
}

// A replica is given the time its stop may take, and Kubernetes the time to stop
// sending connections before it.
func TestAReplicaHasTheTimeItsStopTakes(t *testing.T) {
	const close = 5 * time.Second
	each(t, func(t *testing.T, _ map[string]any, r *Release) {
		spec := statefulSet(t, r).Spec.Template.Spec
		serving := time.Duration(spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
		if grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second; grace < serving+replica.StopBound+close {
			t.Errorf("killed after %s: serves on for %s, hands over in %s", grace, serving, replica.StopBound)
		}
	})
	for _, c := range []struct {
		preStop, grace int
		fits           bool
	}{{0, 30, true}, {0, 29, false}, {5, 35, true}, {10, 39, false}, {10, 40, true}} {
		refused := refusal(t, map[string]any{"uns": map[string]any{"preStopSeconds": c.preStop, "terminationGracePeriodSeconds": c.grace}})
		if (refused == "") != c.fits {
			t.Errorf("preStop %d, grace %d: %q", c.preStop, c.grace, refused)
		}
	}
}
