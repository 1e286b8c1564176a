package config

import "time"

// limitSettings are the rows of the limits every replica keeps, before and after sign-in.
func limitSettings() []setting[Config] {
	const under = "embeddedBrokerLimits."
	count := func(key string, field func(*Limits) *int, initial int, unit string, low, high int64, doc string) setting[Config] {
		return one(under+key, func(c *Config) *int { return field(&c.Limits) }, initial, as[int](counts(unit, low, high)), doc)
	}
	duration := func(key string, field func(*Limits) *time.Duration, initial, low, high time.Duration, doc string) setting[Config] {
		return one(under+key, func(c *Config) *time.Duration { return field(&c.Limits) }, initial, durations(low, high), doc)
	}
	return []setting[Config]{
		count("maxClients", func(l *Limits) *int { return &l.MaxClients }, 5000, "clients", 1, 1_000_000,
			"Clients connected at once. Past it a CONNECT is refused (server busy)."),
		count("maxPendingConnections", func(l *Limits) *int { return &l.MaxPendingConnections }, 2048, "connections", 1, 1_000_000,
			"Connections between accept and CONNACK. Past it the newest is closed at once. Size it for a reconnect storm."),
		count("maxConnectsAuthenticating", func(l *Limits) *int { return &l.MaxConnectsAuthenticating }, 256, "CONNECTs", 1, 100_000,
			"CONNECTs in their credential check at once; others wait within connectBudget. Higher: faster storms, more load on the store and an issuer."),
		count("maxConnectionsPerCredential", func(l *Limits) *int { return &l.MaxConnectionsPerCredential }, 1000, "connections", 1, 1_000_000,
			"Connections one credential may hold on this replica. 1: a credential for one device only."),
		one(under+"trustClientAddresses", func(c *Config) *bool { return &c.Limits.TrustClientAddresses }, false, switches(),
			"Whether the addresses connections come from are the devices' own (no proxy or address translation between, or one in trustedProxies). The limits per address hold only then; on by mistake, one gateway's failures shut out all behind it."),
		count("maxConnectionsPerSource", func(l *Limits) *int { return &l.MaxConnectionsPerSource }, 200, "connections", 1, 1_000_000,
			"Connections one address may hold (IPv6: one /64). Only with trustClientAddresses."),
		count("authFailureThreshold", func(l *Limits) *int { return &l.AuthFailureThreshold }, 10, "failures", 1, 10_000,
			"Failed sign-ins within authFailureWindow after which an address (with trustClientAddresses), and a user name, are held off."),
		duration("authFailureWindow", func(l *Limits) *time.Duration { return &l.AuthFailureWindow }, time.Minute, time.Second, day,
			"Span in which failed sign-ins are counted."),
		duration("authFailureBackoff", func(l *Limits) *time.Duration { return &l.AuthFailureBackoff }, 30*time.Second, time.Second, day,
			"First hold-off; doubles with each that follows."),
		duration("authFailureBackoffMax", func(l *Limits) *time.Duration { return &l.AuthFailureBackoffMax }, 15*time.Minute, time.Second, day,
			"Longest hold-off. At least authFailureBackoff."),
		one(under+"maxConnectPacketBytes", func(c *Config) *int { return &c.Limits.MaxConnectPacketBytes }, 65536, as[int](sizes(1<<10, 1<<20)),
			"Largest CONNECT, which is read before sign-in; also the largest Will. An access token as password must fit."),
		duration("connectTimeout", func(l *Limits) *time.Duration { return &l.ConnectTimeout }, 5*time.Second, time.Second, time.Minute,
			"Time a new connection may take to send its CONNECT, TLS and WebSocket handshakes included. Longer for slow radio links; shorter frees pending places sooner."),
		duration("connectBudget", func(l *Limits) *time.Duration { return &l.ConnectBudget }, 20*time.Second, 5*time.Second, 2*time.Minute,
			"Time from a CONNECT's arrival to its CONNACK, at most half of it for the credential check. Past it: server unavailable, and the device retries."),
		duration("maxKeepAlive", func(l *Limits) *time.Duration { return &l.MaxKeepAlive }, 15*time.Minute, 10*time.Second, 65535*time.Second,
			"Longest MQTT 5 keep alive; a longer one, or none, is replaced by it (Server Keep Alive). MQTT 3 clients keep theirs."),
		count("maxSubscriptionsPerClient", func(l *Limits) *int { return &l.MaxSubscriptionsPerClient }, 1000, "subscriptions", 1, 100_000,
			"Subscriptions of one session. One more is refused (quota exceeded)."),
		count("maxTopicLevels", func(l *Limits) *int { return &l.MaxTopicLevels }, 32, "levels", 5, 1024,
			"Levels of a topic name or filter. An inbox needs five."),
		one(under+"maxTopicBytes", func(c *Config) *int { return &c.Limits.MaxTopicBytes }, 1024, as[int](sizes(64, 65535)),
			"Length of a topic name or filter."),
		one(under+"receiveMaximum", func(c *Config) *uint16 { return &c.Limits.ReceiveMaximum }, 1000, as[uint16](counts("publishes", 1, 65535)),
			"QoS 1 and 2 publishes in flight on a connection, each way (Receive Maximum). Higher: more throughput on long round trips, more memory."),
		count("maxClientWritesPending", func(l *Limits) *int { return &l.MaxClientWritesPending }, 1000, "packets", 1, 1_000_000,
			"Packets waiting to be written to one client before the broker stops reading from it and queues its deliveries."),
		count("maxSubscriberQueue", func(l *Limits) *int { return &l.MaxSubscriberQueue }, 10000, "values", 1, 1_000_000,
			"Live values waiting for one subscriber; a full queue drops its oldest, and counts it."),
		duration("maxSessionExpiry", func(l *Limits) *time.Duration { return &l.MaxSessionExpiry }, time.Hour, time.Second, 30*day,
			"How long a persistent session is kept after its connection ends, and how long the session log keeps a value. A longer Session Expiry Interval is shortened to it."),
		count("maxOfflineSessions", func(l *Limits) *int { return &l.MaxOfflineSessions }, 100, "sessions", 1, 100_000,
			"Persistent sessions kept without a connection; beyond it the one longest away is ended, and counted. A session counts once it has been away for `brokerWillStopGrace`, so that a failover ends none: until then there may be more."),
	}
}
