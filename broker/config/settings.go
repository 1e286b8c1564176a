package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
)

// root is where every setting lies in config.yaml.
const root = "modules.uns"

// settings is the table: the one place of every key, default, range, unit and meaning.
func settings() []setting[Config] {
	return slices.Concat(replicaSettings(), clusterSettings(), brokerSettings(), limitSettings(), storeSettings(), serviceSettings())
}

func replicaSettings() []setting[Config] {
	return []setting[Config]{
		one("topicVersion", func(c *Config) *string { return &c.TopicVersion }, "mHv1.0",
			texts("one topic level, without / + # or spaces, not starting with $", oneLevel),
			"First level of every topic: `<topicVersion>/<workspace>/_ingress/<client id>/<topic>`. Devices carry it in their settings: change it with them."),
		one("modelFile", func(c *Config) *string { return &c.ModelFile }, "", files("a path, or empty"),
			"YAML file of workspaces, schemas and bindings; read again when it changes. Empty: any workspace, any JSON value."),
		one("clientsFile", func(c *Config) *string { return &c.ClientsFile }, "", files("a path, or empty"),
			"YAML file of API clients, or a folder of them (`*.yaml`), read at start and again when it changes: clients that are new in it are added, those whose entry changed are changed, all others stay as they are. Format: The clients file, above. Empty: clients are managed over REST and the command line only."),
		one("dataDir", func(c *Config) *string { return &c.DataDir }, "data", files("a path"),
			"Directory of the embedded historian, of what a single node keeps over a restart, and of the operator's socket, for which at most 92 bytes leave room. The default counts from the working directory."),
		one("replicas", func(c *Config) *int { return &c.Replicas }, 1, as[int](counts("replicas", 1, 64)),
			"UNS replicas of this installation. More than one needs `nats.servers` and `historian.type: timescale`."),
		one("replicaId", func(c *Config) *string { return &c.ReplicaID }, "",
			texts("up to 63 letters, digits, - and _, or empty", func(s string) bool { return s == "" || name(s, 63) }),
			"Name of this replica, unlike every other's. Empty: the host's name (on Kubernetes the pod's)."),
		one("brokerMemberTTL", func(c *Config) *time.Duration { return &c.MemberTTL }, 10*time.Second, durations(5*time.Second, 2*time.Minute),
			"Membership TTL; heartbeat, fence and failover scale with it: longer rides out a slower store, shorter fails over sooner. The same on every replica. No effect on a single node."),
		one("brokerWillStopGrace", func(c *Config) *time.Duration { return &c.WillStopGrace }, 30*time.Second, durations(0, time.Hour),
			"How long the wills of a stopped, fenced or gone replica's connections wait for their devices to reconnect. Longer: fewer false offline alarms, later true ones. No effect on a single node, whose sessions and wills end with it, but for `maxOfflineSessions`."),
		one("brokerSessionLogAppendWait", func(c *Config) *time.Duration { return &c.SessionLogAppendWait }, 10*time.Second, durations(time.Second, 2*time.Minute),
			"How long a value waits for room in its session log, or for the retained store, before its publish is refused."),
		one("brokerSessionLogMaxBytes", func(c *Config) *int64 { return &c.SessionLogMaxBytes }, 256<<20, sizes(1<<20, 1<<40),
			"Cap of each workspace's session log, oldest out first. Larger: sessions may stay away longer before they miss values; held in memory on a single node. At least 256KiB more than `embeddedBroker.maxPacketBytes`."),
		one("brokerMesh.listen", func(c *Config) *string { return &c.Mesh.Listen }, ":7884", addresses(),
			"Mesh listener, for links between replicas. Opened with `nats.servers` only."),
		one("liveMirror.qos", func(c *Config) *byte { return &c.LiveMirror.QoS }, 1, as[byte](counts("QoS", 0, 1)),
			"Lowest QoS of the live copy of a stored value. 0: a QoS 0 device's values are not kept for sessions that are away."),
		one("wsRevocationSLA", func(c *Config) *time.Duration { return &c.RevocationSLA }, time.Minute, durations(time.Second, 10*time.Minute),
			"Longest time a subscriber's permission is remembered: a revoked permission stops delivery, and a revoked credential its session, within it."),
	}
}

func clusterSettings() []setting[Config] {
	return []setting[Config]{
		one("brokerMesh.advertise", func(c *Config) *string { return &c.Mesh.Advertise }, "",
			texts("host:port, in which {replicaId} may stand, or empty", func(s string) bool {
				s = strings.ReplaceAll(s, ReplicaIDPlace, "x")
				host, _, err := net.SplitHostPort(s)
				return s == "" || err == nil && host != "" && !strings.ContainsAny(s, "{}") && !strings.ContainsFunc(s, unicode.IsSpace)
			}),
			"Where other replicas reach this one's mesh listener. `{replicaId}` stands for the replica's id, so that one file serves all. Empty: the address it listens on, or the replica's id if that is every address."),
		one("brokerMesh.certFile", func(c *Config) *string { return &c.Mesh.CertFile }, "", files("a path, or empty"),
			"PEM certificate of the mesh, the same file on every replica: a link trusts this one and no other, but see `caFile`. A renewed file is used by the next link, without a restart. Needed with `nats.servers`."),
		one("brokerMesh.keyFile", func(c *Config) *string { return &c.Mesh.KeyFile }, "", files("a path, or empty"),
			"PEM private key of the mesh certificate."),
		one("brokerMesh.caFile", func(c *Config) *string { return &c.Mesh.CAFile }, "", files("a path, or empty"),
			"PEM certificates that sign mesh certificates of this deployment and nothing else (`ca.crt`): replicas then link while one has a renewed certificate and the other still the earlier. Followed like `certFile`."),
		list("nats.servers", func(c *Config) *[]string { return &c.NATS.Servers }, nil,
			texts("nats://host:port or tls://host:port", func(s string) bool {
				u, err := url.Parse(s)
				return err == nil && (u.Scheme == "nats" || u.Scheme == "tls") && u.Host != ""
			}),
			"NATS servers with JetStream, where replicas share their state. Each replica begins with another one of them. Empty: a single node, sessions in memory."),
		one("nats.user", func(c *Config) *string { return &c.NATS.User }, "", texts("text", func(string) bool { return true }),
			"User the replica signs in to NATS as; needs the JetStream of its account."),
		one("nats.password", func(c *Config) *Secret { return &c.NATS.Password }, Secret{}, secrets(),
			"Its password. Only with `nats.user`. A `password_file` is read again for each connection."),
		one("nats.copies", func(c *Config) *int { return &c.NATS.Copies }, 3,
			as[int](counts("copies", 1, 5)),
			"Copies of every stream: 1, 3 or 5. Fewer than three lose acknowledged state with one server."),
		one("nats.tls.caFile", func(c *Config) *string { return &c.NATS.TLS.CAFile }, "", files("a path, or empty"),
			"PEM certificates that sign the NATS servers'. Empty: the system's. A renewed file is used by the next connection."),
		one("nats.tls.certFile", func(c *Config) *string { return &c.NATS.TLS.CertFile }, "", files("a path, or empty"),
			"PEM client certificate, for mutual TLS. A renewed file is used by the next connection. Needs `keyFile`."),
		one("nats.tls.keyFile", func(c *Config) *string { return &c.NATS.TLS.KeyFile }, "", files("a path, or empty"),
			"PEM private key of the client certificate. Needs `certFile`."),
	}
}

func brokerSettings() []setting[Config] {
	return []setting[Config]{
		one("embeddedBroker.tcpListen", func(c *Config) *string { return &c.Broker.TCPListen }, ":1883", addresses(),
			"MQTT over TCP. Closed by `disablePlaintext`."),
		one("embeddedBroker.tlsListen", func(c *Config) *string { return &c.Broker.TLSListen }, ":8883", addresses(),
			"MQTT over TLS (1.2 and later). Opened only with a certificate."),
		one("embeddedBroker.tls.certFile", func(c *Config) *string { return &c.Broker.TLS.CertFile }, "", files("a path, or empty"),
			"PEM certificate chain (`tls.crt`). A renewed file reaches the next handshake without a restart. Needs `keyFile`."),
		one("embeddedBroker.tls.keyFile", func(c *Config) *string { return &c.Broker.TLS.KeyFile }, "", files("a path, or empty"),
			"PEM private key (`tls.key`). Needs `certFile`."),
		one("embeddedBroker.tls.clientCAFile", func(c *Config) *string { return &c.Broker.TLS.ClientCAFile }, "", files("a path, or empty"),
			"PEM certificates that sign devices' certificates (`ca.crt`): mutual TLS, a device without one is refused. Reloaded like `certFile`."),
		one("embeddedBroker.disablePlaintext", func(c *Config) *bool { return &c.Broker.DisablePlaintext }, false, switches(),
			"TLS only: the plain TCP listener is not opened. Needs a certificate."),
		one("embeddedBroker.webSocket.enabled", func(c *Config) *bool { return &c.Broker.WebSocket.Enabled }, false, switches(),
			"MQTT over WebSocket; over WSS when there is a certificate."),
		one("embeddedBroker.webSocket.listen", func(c *Config) *string { return &c.Broker.WebSocket.Listen }, ":8083", addresses(),
			"WebSocket listener."),
		one("embeddedBroker.webSocket.path", func(c *Config) *string { return &c.Broker.WebSocket.Path }, "/mqtt",
			texts("a path that starts with /, without ? # or spaces", func(s string) bool {
				return strings.HasPrefix(s, "/") && !strings.ContainsAny(s, "?#") && !strings.ContainsFunc(s, unicode.IsSpace)
			}),
			"Path of the WebSocket endpoint; any other is answered 404."),
		list("embeddedBroker.webSocket.allowedOrigins", func(c *Config) *[]string { return &c.Broker.WebSocket.AllowedOrigins }, nil, origins(),
			"Web pages that may connect besides those of the endpoint's own host, by the browser's Origin header. Clients that are not browsers send none and are not concerned."),
		list("embeddedBroker.proxyProtocol.trustedProxies", func(c *Config) *[]netip.Prefix { return &c.Broker.TrustedProxies }, nil, networks(),
			"Load balancers that open each connection with a PROXY protocol header (v1 or v2), which is required of them. From any other address a header is malformed MQTT."),
		one("embeddedBroker.features.sharedSubscriptions", func(c *Config) *bool { return &c.Broker.Features.SharedSubscriptions }, true, switches(),
			"Shared subscriptions (`$share/<group>/<filter>`). Off: CONNACK says so and such a SUBSCRIBE is refused (0x9E)."),
		one("embeddedBroker.features.subscriptionIdentifiers", func(c *Config) *bool { return &c.Broker.Features.SubscriptionIdentifiers }, true, switches(),
			"Subscription identifiers. Off: CONNACK says so and a SUBSCRIBE that carries one is refused (0xA1)."),
		one("embeddedBroker.features.topicAliases", func(c *Config) *uint16 { return &c.Broker.Features.TopicAliases }, 32, as[uint16](counts("aliases", 0, 1024)),
			"Topic aliases a client may set on a connection (Topic Alias Maximum), and most the broker sets towards it. Each may hold `maxTopicBytes` of memory. 0: off."),
		one("embeddedBroker.maxPacketBytes", func(c *Config) *int { return &c.Broker.MaxPacketBytes }, 1<<20, as[int](sizes(1<<10, 8<<20-16<<10)),
			"Largest MQTT packet after sign-in (Maximum Packet Size). At least `embeddedBrokerLimits.maxConnectPacketBytes`; the bound is what the shared store takes in one message."),
	}
}

func storeSettings() []setting[Config] {
	return []setting[Config]{
		one("historian.type", func(c *Config) *HistorianType { return &c.Historian.Type }, Embedded, words(Embedded, Timescale),
			"Where values are stored: `embedded` in dataDir, `timescale` in a PostgreSQL that the replicas share, with TimescaleDB's compression and retention where the extension is installed."),
		one("historian.timescale.url", func(c *Config) *Secret { return &c.Historian.TimescaleURL }, Secret{}, secrets(),
			"Connection URL of the database, with its password. Only with `historian.type: timescale`."),
		one("historian.maxAge", func(c *Config) *time.Duration { return &c.Historian.MaxAge }, 90*day, durationsOrZero(time.Minute, 36500*day, "no limit"),
			"How long a value is kept. One whose timestamp is older is refused (too_old)."),
		one("historian.maxBytes", func(c *Config) *int64 { return &c.Historian.MaxBytes }, 0, sizesOrZero(64<<20, 64<<40, "no limit"),
			"Size of the embedded historian on disk beyond which the oldest values are dropped. No limit: a full disk refuses values instead of dropping old ones."),
		one("historian.retryBudget", func(c *Config) *time.Duration { return &c.Historian.RetryBudget }, 30*time.Second, durations(time.Second, 10*time.Minute),
			"How long a write the historian does not take is retried before its values are refused. Longer: outages become waits rather than refusals. At least `hungWriteTimeout`."),
		one("historian.hungWriteTimeout", func(c *Config) *time.Duration { return &c.Historian.HungWriteTimeout }, 10*time.Second, durations(100*time.Millisecond, 5*time.Minute),
			"How long one write may take before it counts as hung and is tried again."),
		one("historian.quarantineAfter", func(c *Config) *int { return &c.Historian.QuarantineAfter }, 3, as[int](counts("hung writes", 1, 100)),
			"Hung writes in a row, of a value alone in its batch, after which that value is given up on: refused, quarantined and counted."),
	}
}

func serviceSettings() []setting[Config] {
	rows := issuerSettings()
	return []setting[Config]{
		one("http.listen", func(c *Config) *string { return &c.HTTP.Listen }, ":8080", addresses(),
			"Health, metrics, status, REST API and the MQTT Broker page."),
		one("http.tls.certFile", func(c *Config) *string { return &c.HTTP.TLS.CertFile }, "", files("a path, or empty"),
			"PEM certificate chain of the HTTP listener; empty: plain HTTP. Reloaded when it changes. Needs `keyFile`."),
		one("http.tls.keyFile", func(c *Config) *string { return &c.HTTP.TLS.KeyFile }, "", files("a path, or empty"),
			"PEM private key of the HTTP listener. Needs `certFile`."),
		one("oauth2.tokenTTL", func(c *Config) *time.Duration { return &c.OAuth2.TokenTTL }, time.Hour, durations(time.Minute, day),
			"Life of an access token issued by `POST /api/v1/oauth2/token`. A session signed in with one is checked again before it ends."),
		mappings("oauth2.issuers", func(c *Config) *[]Issuer { return &c.OAuth2.Issuers }, rows,
			"External issuers whose access tokens are accepted as passwords, for API clients known here."),
		one("log.format", func(c *Config) *string { return &c.Log.Format }, "text", words("text", "json"),
			"How log lines are written."),
		one("log.level", func(c *Config) *string { return &c.Log.Level }, "info", words("debug", "info", "warn", "error"),
			"Least severe line that is logged."),
	}
}

func issuerSettings() []setting[Issuer] {
	return []setting[Issuer]{
		one("issuer", func(i *Issuer) *string { return &i.Issuer }, "", webAddresses(),
			"The issuer, exactly as its tokens' `iss`. Required."),
		one("jwksURL", func(i *Issuer) *string { return &i.JWKSURL }, "", webAddresses(),
			"Where its public keys are fetched (JWKS). Left out: found through the issuer's `/.well-known/openid-configuration`."),
		one("audience", func(i *Issuer) *string { return &i.Audience }, "", texts("text", func(s string) bool { return s != "" }),
			"What a token's `aud` must contain. Required: a token made for another service is not accepted."),
		one("clientIdClaim", func(i *Issuer) *string { return &i.ClientIDClaim }, "client_id", texts("text", func(s string) bool { return s != "" }),
			"Claim that names the API client."),
		list("algorithms", func(i *Issuer) *[]string { return &i.Algorithms }, []string{"RS256", "ES256"},
			words("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"),
			"Signature algorithms accepted."),
	}
}

func oneLevel(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '$' && !strings.ContainsAny(s, "/+#\x00") && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}

func name(s string, longest int) bool {
	return s != "" && len(s) <= longest && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
