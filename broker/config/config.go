package config

import (
	"net/netip"
	"time"
)

// Config is one replica's configuration. Keys, defaults, ranges and meanings: Reference.
type Config struct {
	TopicVersion string // first level of every topic
	ModelFile    string // "" = no model
	ClientsFile  string // "" = no seeded API clients
	DataDir      string
	Replicas     int
	ReplicaID    string // "" = the host's name

	MemberTTL            time.Duration
	WillStopGrace        time.Duration
	SessionLogAppendWait time.Duration
	SessionLogMaxBytes   int64
	RevocationSLA        time.Duration
	Mesh                 Mesh
	LiveMirror           LiveMirror
	NATS                 NATS

	Limits    Limits
	Broker    Broker
	Historian Historian
	HTTP      HTTP
	OAuth2    OAuth2
	Log       Log
}

// Mesh is the listener of the links between replicas.
type Mesh struct {
	Listen    string
	Advertise string // where other replicas reach it, with ReplicaIDPlace; "" = the listener's own address
	CertFile  string // one certificate for the whole deployment
	KeyFile   string
	CAFile    string // authorities that sign for this deployment alone; "" = a link takes only CertFile's certificate
}

// ReplicaIDPlace stands for the replica's id in Mesh.Advertise.
const ReplicaIDPlace = "{replicaId}"

// NATS is where replicas share their state.
type NATS struct {
	Servers  []string // empty: a single node
	User     string
	Password Secret
	Copies   int // of every stream
	TLS      NATSTLS
}

// NATSTLS secures the connections to NATS.
type NATSTLS struct {
	CAFile   string // "" = the system's, and only if the server asks for TLS
	CertFile string // "" = no client certificate
	KeyFile  string
}

// Clustered reports whether the replica shares its state with others.
func (c *Config) Clustered() bool { return len(c.NATS.Servers) > 0 }

// LiveMirror is the live copy of a stored value.
type LiveMirror struct {
	QoS byte // lowest QoS of the copy, 0 or 1
}

// Limits are the bounds of one replica, before and after sign-in.
type Limits struct {
	MaxClients                  int
	MaxPendingConnections       int
	MaxConnectsAuthenticating   int
	MaxConnectionsPerCredential int
	TrustClientAddresses        bool
	MaxConnectionsPerSource     int
	AuthFailureThreshold        int
	AuthFailureWindow           time.Duration
	AuthFailureBackoff          time.Duration
	AuthFailureBackoffMax       time.Duration
	MaxConnectPacketBytes       int
	ConnectTimeout              time.Duration
	ConnectBudget               time.Duration
	MaxKeepAlive                time.Duration
	MaxSubscriptionsPerClient   int
	MaxTopicLevels              int
	MaxTopicBytes               int
	ReceiveMaximum              uint16
	MaxClientWritesPending      int
	MaxSubscriberQueue          int
	MaxSessionExpiry            time.Duration
	MaxOfflineSessions          int
}

// Broker is how devices reach the broker and what it offers them.
type Broker struct {
	TCPListen        string
	TLSListen        string // used only with a certificate
	TLS              TLS
	DisablePlaintext bool
	WebSocket        WebSocket
	TrustedProxies   []netip.Prefix
	Features         Features
	MaxPacketBytes   int
}

// TLS names certificate files; they are read again when they change.
type TLS struct {
	CertFile     string // "" = no TLS
	KeyFile      string
	ClientCAFile string // "" = clients need no certificate
}

// Enabled reports whether a certificate is configured.
func (t TLS) Enabled() bool { return t.CertFile != "" }

// WebSocket is the MQTT over WebSocket listener; WSS when there is a certificate.
type WebSocket struct {
	Enabled        bool
	Listen         string
	Path           string
	AllowedOrigins []string // besides the endpoint's own host; "*" = any
}

// Features are MQTT features that CONNACK announces as available or not.
type Features struct {
	SharedSubscriptions     bool
	SubscriptionIdentifiers bool
	TopicAliases            uint16 // aliases a client may use, and is given, per connection; 0 = off
}

// HistorianType is which historian stores the values.
type HistorianType string

const (
	Embedded  HistorianType = "embedded"
	Timescale HistorianType = "timescale"
)

// Historian is where values are stored, for how long, and how long a write may take.
type Historian struct {
	Type             HistorianType
	TimescaleURL     Secret
	MaxAge           time.Duration // 0 = no limit
	MaxBytes         int64         // 0 = no limit
	RetryBudget      time.Duration
	HungWriteTimeout time.Duration
	QuarantineAfter  int
}

// HTTP is the listener of health, metrics, status and the REST API.
type HTTP struct {
	Listen string
	TLS    HTTPTLS
}

// HTTPTLS names the certificate files of the HTTP listener.
type HTTPTLS struct {
	CertFile string // "" = plain HTTP
	KeyFile  string
}

// OAuth2 is which access tokens are issued and accepted.
type OAuth2 struct {
	TokenTTL time.Duration
	Issuers  []Issuer
}

// Issuer is an external issuer whose access tokens are accepted as passwords.
type Issuer struct {
	Issuer        string
	JWKSURL       string
	Audience      string
	ClientIDClaim string
	Algorithms    []string
}

// Log is how the replica logs.
type Log struct {
	Format string // "text" or "json"
	Level  string // "debug", "info", "warn" or "error"
}

// Default is the configuration an empty file gives.
func Default() *Config {
	c := new(Config)
	for _, s := range settings() {
		s.reset(c)
	}
	return c
}
