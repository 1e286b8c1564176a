package config_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
)

func TestNothingSetMeansTheDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"empty file":        "",
		"only a comment":    "# nothing\n",
		"null document":     "null\n",
		"null section":      "modules:\n  uns:\n    embeddedBrokerLimits:\n",
		"null keys":         "modules: {uns: {brokerMemberTTL: null, dataDir: ~, oauth2: {issuers: null}, embeddedBrokerLimits: {maxClients: }}}\n",
		"null secret files": "modules: {uns: {historian: {timescale: {url: null, url_file: null}}}}\n",
	} {
		c, err := config.Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(c, config.Default()) {
			t.Errorf("%s: is not the default:\n%+v", name, c)
		}
	}
}

// The figures of the operators' guide, written out again here.
func TestDefaultsAreTheGuides(t *testing.T) {
	c := config.Default()
	want := config.Limits{
		MaxClients: 5000, MaxPendingConnections: 2048, MaxConnectsAuthenticating: 256, MaxConnectionsPerCredential: 1000,
		TrustClientAddresses: false, MaxConnectionsPerSource: 200,
		AuthFailureThreshold: 10, AuthFailureWindow: 60 * time.Second, AuthFailureBackoff: 30 * time.Second, AuthFailureBackoffMax: 15 * time.Minute,
		MaxConnectPacketBytes: 65536, ConnectTimeout: 5 * time.Second, ConnectBudget: 20 * time.Second, MaxKeepAlive: 15 * time.Minute,
		MaxSubscriptionsPerClient: 1000, MaxTopicLevels: 32, MaxTopicBytes: 1024,
		ReceiveMaximum: 1000, MaxClientWritesPending: 1000, MaxSubscriberQueue: 10000,
		MaxSessionExpiry: time.Hour, MaxOfflineSessions: 100,
	}
	if c.Limits != want {
		t.Errorf("limits\n%+v, want\n%+v", c.Limits, want)
	}
	if c.MemberTTL != 10*time.Second || c.WillStopGrace != 30*time.Second || c.SessionLogAppendWait != 10*time.Second ||
		c.SessionLogMaxBytes != 256<<20 || c.Mesh.Listen != ":7884" || c.LiveMirror.QoS != 1 || c.RevocationSLA != time.Minute {
		t.Errorf("cluster settings: %+v", c)
	}
	if b := c.Broker; b.TCPListen != ":1883" || b.TLSListen != ":8883" || b.WebSocket.Listen != ":8083" || b.WebSocket.Enabled || b.DisablePlaintext || b.TLS.Enabled() {
		t.Errorf("listeners: %+v", b)
	}
	if c.HTTP.Listen != ":8080" || c.TopicVersion != "mHv1.0" {
		t.Errorf("http %q, topic version %q", c.HTTP.Listen, c.TopicVersion)
	}
}

func TestEveryKindOfSettingIsRead(t *testing.T) {
	c, err := config.Parse([]byte(`
modules:
  uns:
    topicVersion: v2
    replicaId: uns-0
    brokerMemberTTL: 1m30s
    brokerSessionLogMaxBytes: 1.5 GiB
    liveMirror: {qos: 0}
    embeddedBrokerLimits: &limits
      maxConnectPacketBytes: 65536
      maxTopicBytes: 2KiB
      maxSessionExpiry: 1d12h
      receiveMaximum: 65535
      trustClientAddresses: true
    embeddedBroker:
      tls: {certFile: /tls/tls.crt, keyFile: /tls/tls.key, clientCAFile: ca.crt}
      disablePlaintext: true
      webSocket: {enabled: true, allowedOrigins: ["https://plant.example", "http://10.0.0.1:3000", "*"]}
      proxyProtocol: {trustedProxies: [10.1.2.3/8, fd00::/8, 192.0.2.7, "::ffff:192.0.2.8"]}
      features: {sharedSubscriptions: false, topicAliases: 0}
    historian: {maxAge: 0, maxBytes: 10GB}
    oauth2:
      issuers:
        - {issuer: "https://login.example/realm", audience: uns}
        - {issuer: "http://localhost:8081", jwksURL: "http://127.0.0.1:8081/keys", audience: uns, clientIdClaim: azp, algorithms: [EdDSA]}
    log: {format: json, level: debug}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.TopicVersion, want.ReplicaID = "v2", "uns-0"
	want.MemberTTL, want.SessionLogMaxBytes, want.LiveMirror.QoS = 90*time.Second, 3<<29, 0
	want.Limits.MaxTopicBytes, want.Limits.MaxSessionExpiry, want.Limits.ReceiveMaximum, want.Limits.TrustClientAddresses = 2048, 36*time.Hour, 65535, true
	want.Broker.TLS = config.TLS{CertFile: "/tls/tls.crt", KeyFile: "/tls/tls.key", ClientCAFile: "ca.crt"}
	want.Broker.DisablePlaintext = true
	want.Broker.WebSocket.Enabled, want.Broker.WebSocket.AllowedOrigins = true, []string{"https://plant.example", "http://10.0.0.1:3000", "*"}
	want.Broker.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("192.0.2.8/32")}
	want.Broker.Features = config.Features{SharedSubscriptions: false, SubscriptionIdentifiers: true, TopicAliases: 0}
	want.Historian.MaxAge, want.Historian.MaxBytes = 0, 10e9
	want.OAuth2.Issuers = []config.Issuer{
		{Issuer: "https://login.example/realm", Audience: "uns", ClientIDClaim: "client_id", Algorithms: []string{"RS256", "ES256"}},
		{Issuer: "http://localhost:8081", JWKSURL: "http://127.0.0.1:8081/keys", Audience: "uns", ClientIDClaim: "azp", Algorithms: []string{"EdDSA"}},
	}
	want.Log = config.Log{Format: "json", Level: "debug"}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("read\n%+v\nwant\n%+v", c, want)
	}
}

func TestPathsInAFileCountFromItsDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	text := "modules: {uns: {modelFile: model.yaml, dataDir: /var/lib/uns, embeddedBroker: {tls: {certFile: tls/tls.crt, keyFile: ../tls.key}}}}"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.ModelFile, c.ClientsFile, c.DataDir, c.Broker.TLS.CertFile, c.Broker.TLS.KeyFile}
	want := []string{filepath.Join(dir, "model.yaml"), "", "/var/lib/uns", filepath.Join(dir, "tls/tls.crt"), filepath.Join(filepath.Dir(dir), "tls.key")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("modules: {uns: {replicas: 0}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(path)
	if want := "configuration " + path + ": line 1: modules.uns.replicas (0) must be 1 to 64"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
