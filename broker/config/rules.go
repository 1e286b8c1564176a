package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// recordRoom is what a value may take in the session log beyond the packet it came
// in: names a topic alias left out of the packet, the client identifier, which is
// not in it, the chosen members of shared subscriptions and the log's own part.
const recordRoom = 256 << 10

// rules checks what no single setting can be checked for: how settings fit together.
func rules(c *Config) []Violation {
	var v []Violation
	require := func(ok bool, key, value, want string) {
		if !ok {
			v = append(v, Violation{Key: below(root, key), Value: value, Want: want})
		}
	}
	full := func(key string) string { return below(root, key) }

	require(c.DataDir != "", "dataDir", "", "must not be empty")
	require(c.Historian.Type != Timescale || c.Historian.TimescaleURL.Set(), "historian.timescale.url", "",
		"must be set with "+full("historian.type")+" "+string(Timescale))
	require(!c.Historian.TimescaleURL.Set() || c.Historian.Type == Timescale, "historian.timescale.url", "",
		"is used only with "+full("historian.type")+" "+string(Timescale))
	require(c.Replicas == 1 || c.Historian.Type == Timescale, "replicas", strconv.Itoa(c.Replicas),
		"must be 1 with "+full("historian.type")+" "+string(Embedded)+": an embedded historian cannot be shared")
	require(c.Replicas == 1 || c.Clustered(), "nats.servers", "[]",
		"must be set with "+full("replicas")+" ("+strconv.Itoa(c.Replicas)+"): replicas share their state through NATS")
	require(!c.Clustered() || c.Mesh.CertFile != "" && c.Mesh.KeyFile != "", "brokerMesh.certFile", c.Mesh.CertFile,
		"must be set, with keyFile, with "+full("nats.servers"))
	require(c.Mesh.CAFile == "" || c.Mesh.CertFile != "", "brokerMesh.caFile", c.Mesh.CAFile, "is used only with "+full("brokerMesh.certFile"))
	for i, server := range c.NATS.Servers {
		// Not the kind's to refuse: its message would show the password.
		if u, err := url.Parse(server); err == nil && u.User != nil {
			require(false, "nats.servers["+strconv.Itoa(i)+"]", u.Redacted(), "must not carry a user: set "+full("nats.user")+" and "+full("nats.password"))
		}
	}
	require(c.NATS.Copies%2 == 1, "nats.copies", strconv.Itoa(c.NATS.Copies), "must be 1, 3 or 5")
	require(!c.NATS.Password.Set() || c.NATS.User != "", "nats.user", "", "must be set with "+full("nats.password"))

	l, b := c.Limits, c.Broker
	require(l.AuthFailureBackoffMax >= l.AuthFailureBackoff, "embeddedBrokerLimits.authFailureBackoffMax", formatDuration(l.AuthFailureBackoffMax),
		"must be at least "+full("embeddedBrokerLimits.authFailureBackoff")+" ("+formatDuration(l.AuthFailureBackoff)+")")
	require(b.MaxPacketBytes >= l.MaxConnectPacketBytes, "embeddedBroker.maxPacketBytes", formatBytes(int64(b.MaxPacketBytes)),
		"must be at least "+full("embeddedBrokerLimits.maxConnectPacketBytes")+" ("+formatBytes(int64(l.MaxConnectPacketBytes))+")")
	require(c.SessionLogMaxBytes >= int64(b.MaxPacketBytes)+recordRoom, "brokerSessionLogMaxBytes", formatBytes(c.SessionLogMaxBytes),
		"must be at least "+formatBytes(recordRoom)+" more than "+full("embeddedBroker.maxPacketBytes")+" ("+formatBytes(int64(b.MaxPacketBytes))+")")
	require(c.Historian.RetryBudget >= c.Historian.HungWriteTimeout, "historian.retryBudget", formatDuration(c.Historian.RetryBudget),
		"must be at least "+full("historian.hungWriteTimeout")+" ("+formatDuration(c.Historian.HungWriteTimeout)+")")

	pair := func(under, cert, key string) {
		require(cert == "" || key != "", under+".keyFile", "", "must be set with "+full(under+".certFile")+" ("+cert+")")
		require(key == "" || cert != "", under+".certFile", "", "must be set with "+full(under+".keyFile")+" ("+key+")")
	}
	pair("embeddedBroker.tls", b.TLS.CertFile, b.TLS.KeyFile)
	pair("nats.tls", c.NATS.TLS.CertFile, c.NATS.TLS.KeyFile)
	pair("http.tls", c.HTTP.TLS.CertFile, c.HTTP.TLS.KeyFile)
	require(b.TLS.ClientCAFile == "" || b.TLS.Enabled(), "embeddedBroker.tls.clientCAFile", b.TLS.ClientCAFile,
		"needs a certificate: set "+full("embeddedBroker.tls.certFile")+" and keyFile")
	require(!b.DisablePlaintext || b.TLS.Enabled(), "embeddedBroker.disablePlaintext", "true",
		"needs a certificate: set "+full("embeddedBroker.tls.certFile")+" and keyFile, or no device could connect")

	v = append(v, clashes(c)...)
	return append(v, issuerRules(c)...)
}

// clashes are listeners that would be opened on the same port.
func clashes(c *Config) []Violation {
	var v []Violation
	taken := make(map[string]string) // port -> key
	open := func(used bool, key, address string) {
		_, port, err := net.SplitHostPort(address)
		if !used || err != nil || strings.Trim(port, "0") == "" {
			return
		}
		port = strings.TrimLeft(port, "0")
		if other, twice := taken[port]; twice {
			v = append(v, Violation{Key: below(root, key), Value: address, Want: "must not use the port of " + below(root, other)})
			return
		}
		taken[port] = key
	}
	open(!c.Broker.DisablePlaintext, "embeddedBroker.tcpListen", c.Broker.TCPListen)
	open(c.Broker.TLS.Enabled(), "embeddedBroker.tlsListen", c.Broker.TLSListen)
	open(c.Broker.WebSocket.Enabled, "embeddedBroker.webSocket.listen", c.Broker.WebSocket.Listen)
	open(true, "http.listen", c.HTTP.Listen)
	open(c.Clustered(), "brokerMesh.listen", c.Mesh.Listen)
	return v
}

func issuerRules(c *Config) []Violation {
	var v []Violation
	first := make(map[string]bool)
	for i, issuer := range c.OAuth2.Issuers {
		key := below(root, "oauth2.issuers["+strconv.Itoa(i)+"]")
		if issuer.Issuer == "" {
			v = append(v, Violation{Key: key + ".issuer", Want: "must be set"})
		} else if first[issuer.Issuer] {
			v = append(v, Violation{Key: key + ".issuer", Value: issuer.Issuer, Want: "must not be listed twice"})
		}
		first[issuer.Issuer] = true
		if issuer.Audience == "" {
			v = append(v, Violation{Key: key + ".audience", Want: "must be set"})
		}
		if len(issuer.Algorithms) == 0 {
			v = append(v, Violation{Key: key + ".algorithms", Want: "must name at least one algorithm"})
		}
	}
	return v
}
