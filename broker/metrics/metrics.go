package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is every metric of one replica; what each means is its help text in New.
type Metrics struct {
	registry *prometheus.Registry
	rows     []row

	Ready prometheus.Gauge

	ConnectionsAccepted *prometheus.CounterVec // transport
	ConnectionsPending  prometheus.Gauge
	ClientsConnected    prometheus.Gauge
	ConnectsAccepted    *prometheus.CounterVec // version
	ConnectRefused      *prometheus.CounterVec // reason
	ConnectSeconds      prometheus.Histogram
	ConnectsChecking    prometheus.Gauge
	SignInFailures      *prometheus.CounterVec // reason
	Disconnects         *prometheus.CounterVec // reason
	CertificateReloads  *prometheus.CounterVec // result
	CertificateExpiry   *Reading
	// Of the links between replicas and of the connection to NATS.
	MeshCertificateExpiry, NATSCertificateExpiry *Reading
	PacketsReceived                              ByType
	PacketsSent                                  ByType
	BytesReceived                                ByType
	BytesSent                                    ByType
	SessionsOnline                               *Reading
	SessionsOffline                              *Reading
	SessionsEnded                                *prometheus.CounterVec // reason
	Subscriptions                                *Reading
	SubscriptionsRefused                         *prometheus.CounterVec // reason
	MessagesDropped                              prometheus.Counter
	DeliveriesWithheld                           *prometheus.CounterVec // reason
	WillsPublished                               prometheus.Counter
	WillsWithheld                                prometheus.Counter
	WillsRefused                                 prometheus.Counter

	ValuesAccepted     prometheus.Counter
	ValuesRefused      *prometheus.CounterVec // reason
	ValuesPending      *Reading
	ValuesPendingBytes *Reading
	OutcomeSeconds     prometheus.Histogram
	AlertsPublished    *prometheus.CounterVec // level
	LiveMirrored       prometheus.Counter
	LiveMirrorDropped  prometheus.Counter
	ModelReloads       *prometheus.CounterVec // result

	StoreAppendSeconds   prometheus.Histogram
	StoreBatchValues     prometheus.Histogram
	StoreRetries         prometheus.Counter
	StoreHungWrites      prometheus.Counter
	StoreUnavailable     prometheus.Counter
	Quarantined          prometheus.Counter
	HistorianBytes       *Reading
	HistorianReads       *prometheus.CounterVec // result
	HistorianReadSeconds prometheus.Histogram

	SessionLogAppended         prometheus.Counter
	SessionLogAppendSeconds    prometheus.Histogram
	SessionLogAppendsHeld      prometheus.Gauge
	SessionLogAppendsRefused   prometheus.Counter
	SessionLogAppendsReordered prometheus.Counter
	SessionLogValuesMissed     prometheus.Counter
	SessionLogReadsHeld        prometheus.Gauge
	SessionLogBytes            *prometheus.GaugeVec // workspace
	SessionSubscriptionsKept   prometheus.Counter
	SubscribeIndexWaitTimeouts prometheus.Counter
	RetainedMessages           *Reading
	RetainedPutSeconds         prometheus.Histogram
	Members                    *Reading
	MembersGone                prometheus.Counter
	MeshLinksUp                *Reading
	MeshLinksExpected          *Reading
	MeshValuesLost             prometheus.Counter
	FormatUnreadable           *Reading
	HTTPRequests               *prometheus.CounterVec // route, code
	HTTPRequestSeconds         *prometheus.HistogramVec
}

// Latency buckets, in seconds: from a memory-only step to the longest budget.
var (
	writeBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	waitBuckets  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 60}
)

// New makes every metric, at zero.
func New() *Metrics {
	b := &builder{registry: prometheus.NewRegistry()}
	b.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	m := &Metrics{registry: b.registry}

	m.Ready = b.gauge("uns_broker_ready", "Whether GET /health/ready answers 200 (1) or 503 (0).")

	// Connections, before and at sign-in.
	m.ConnectionsAccepted = b.counters("uns_broker_connections_accepted_total", "Connections accepted, before any handshake.",
		label{"transport", []string{"tcp", "tls", "ws", "wss"}})
	m.ConnectionsPending = b.gauge("uns_broker_connections_pending", "Connections between accept and CONNACK; bounded by maxPendingConnections.")
	m.ClientsConnected = b.gauge("uns_broker_clients_connected", "Clients connected, CONNACK sent; bounded by maxClients.")
	m.ConnectsAccepted = b.counters("uns_broker_connects_accepted_total", "CONNECTs answered with success.",
		label{"version", []string{"3.1", "3.1.1", "5"}})
	m.ConnectRefused = b.counters("uns_broker_connect_refused_total", "Connections that ended before a successful CONNACK, refused by the broker.",
		label{"reason", []string{
			"max_pending_connections", "max_connections_per_source", "handshake_failed", "proxy_header", "connect_timeout", "connect_packet_too_large", // before the CONNECT
			"malformed", "protocol_error", "unsupported_protocol_version", "unsupported_authentication_method", "client_id_invalid", "will_invalid", "will_not_authorized", // the CONNECT
			"bad_credentials", "throttled", "credential_check_unavailable", "max_connects_authenticating", "max_connections_per_credential", // sign-in
			"max_clients", "client_id_in_use", "taken_over", "connect_budget", "store_unavailable", "fenced", "stopping", // take-up
		}})
	m.ConnectSeconds = b.histogram("uns_broker_connect_seconds", "Time from a CONNECT's arrival to its CONNACK.", waitBuckets)
	m.ConnectsChecking = b.gauge("uns_broker_connects_authenticating", "CONNECTs in their credential check; bounded by maxConnectsAuthenticating.")
	m.SignInFailures = b.counters("uns_broker_sign_in_failures_total", "Sign-ins that failed, over MQTT and HTTP: refused (wrong, unknown, disabled), throttled (held off after earlier failures), unavailable (could not be checked).",
		label{"reason", []string{"refused", "throttled", "unavailable"}})
	m.Disconnects = b.counters("uns_broker_disconnects_total", "Connected clients that left or were closed.",
		label{"reason", []string{
			"client", "connection_lost", "keep_alive", "taken_over", "malformed", "protocol_error", "packet_too_large", "receive_maximum",
			"refused_publish", "revoked", "write_stalled", "administrative", "fenced", "stopping",
		}})
	m.CertificateReloads = b.counters("uns_broker_certificate_reloads_total", "Times changed certificate files were taken into use, or rejected (the earlier certificate stays).",
		label{"result", []string{"loaded", "rejected"}})
	m.CertificateExpiry = b.reading("uns_broker_certificate_expiry_timestamp_seconds", "When the certificate in use for MQTT ends, Unix time.")
	m.MeshCertificateExpiry = b.reading("uns_broker_cluster_mesh_certificate_expiry_timestamp_seconds", "When the certificate in use for links between replicas ends, Unix time.")
	m.NATSCertificateExpiry = b.reading("uns_broker_nats_certificate_expiry_timestamp_seconds", "When the client certificate in use for NATS ends (without one, the first of the authorities), Unix time.")

	// Packets.
	m.PacketsReceived = b.byType("uns_broker_packets_received_total", "MQTT packets received.")
	m.PacketsSent = b.byType("uns_broker_packets_sent_total", "MQTT packets sent.")
	m.BytesReceived = b.byType("uns_broker_bytes_received_total", "Bytes of MQTT packets received, fixed headers included.")
	m.BytesSent = b.byType("uns_broker_bytes_sent_total", "Bytes of MQTT packets sent, fixed headers included.")

	// Sessions and delivery.
	sessions := b.readings("uns_broker_sessions", "Sessions: online with a connection, offline kept without one.", label{"state", []string{"online", "offline"}})
	m.SessionsOnline, m.SessionsOffline = sessions[0], sessions[1]
	m.SessionsEnded = b.counters("uns_broker_sessions_ended_total", "Sessions that ended: disconnected (not persistent), expired, clean_start (by the client), offline_limit (maxOfflineSessions), client_deleted.",
		label{"reason", []string{"disconnected", "expired", "clean_start", "offline_limit", "client_deleted"}})
	m.Subscriptions = b.reading("uns_broker_subscriptions", "Subscriptions of all sessions.")
	m.SubscriptionsRefused = b.counters("uns_broker_subscriptions_refused_total", "Filters refused in a SUBACK.",
		label{"reason", []string{"not_authorized", "filter_invalid", "quota", "shared_unavailable", "identifier_unavailable", "store"}})
	m.MessagesDropped = b.counter("uns_broker_messages_dropped_total", "Values dropped from a full subscriber queue, oldest first (maxSubscriberQueue).")
	m.DeliveriesWithheld = b.counters("uns_broker_deliveries_withheld_total", "Values not delivered to a subscriber they matched: past their expiry, larger than its Maximum Packet Size, or not permitted.",
		label{"reason", []string{"expired", "too_large", "not_permitted"}})
	m.WillsPublished = b.counter("uns_broker_wills_published_total", "Wills published.")
	m.WillsWithheld = b.counter("uns_broker_wills_withheld_total", "Wills that waited and were not published because their device came back in time.")
	m.WillsRefused = b.counter("uns_broker_wills_refused_total", "Wills refused when they were due, as any value may be.")

	// Ingest.
	m.ValuesAccepted = b.counter("uns_ingest_values_accepted_total", "Values stored, from every source.")
	m.ValuesRefused = b.counters("uns_ingest_values_refused_total", "Values refused.",
		label{"reason", []string{
			"not_inbox", "topic_invalid", "other_workspace", "other_inbox", "not_granted", "payload", "schema", "range", "quality", "too_large", "too_old", // at admission
			"unstorable", "historian_unavailable", "historian_quarantined", "no_room", "log_timeout", "log_refused", "retained_timeout", "shed", // in the lane
		}})
	m.ValuesPending = b.reading("uns_ingest_values_pending", "Values admitted whose outcome is not known yet.")
	m.ValuesPendingBytes = b.reading("uns_ingest_values_pending_bytes", "Bytes of the values admitted whose outcome is not known yet.")
	m.OutcomeSeconds = b.histogram("uns_ingest_outcome_seconds", "Time from a value's admission to its outcome, which is when it is acknowledged.", writeBuckets)
	m.AlertsPublished = b.counters("uns_ingest_alerts_total", "Alerts published for values beyond a threshold.",
		label{"level", []string{"warn", "critical"}})
	m.LiveMirrored = b.counter("uns_live_mirror_values_total", "Live copies of stored values published.")
	m.LiveMirrorDropped = b.counter("uns_live_mirror_dropped_total", "Live copies of stored values that could not be published.")
	m.ModelReloads = b.counters("uns_model_reloads_total", "Times a changed model file was taken into use, or rejected (the earlier model stays).",
		label{"result", []string{"loaded", "rejected"}})

	// Historian.
	m.StoreAppendSeconds = b.histogram("uns_ingest_store_append_seconds", "Time of one batch's write to the historian, retries counted one by one.", writeBuckets)
	m.StoreBatchValues = b.histogram("uns_ingest_store_batch_values", "Values in one write to the historian.", prometheus.ExponentialBuckets(1, 2, 14))
	m.StoreRetries = b.counter("uns_ingest_store_retries_total", "Writes to the historian tried again.")
	m.StoreHungWrites = b.counter("uns_ingest_store_hung_writes_total", "Writes to the historian that did not return within hungWriteTimeout.")
	m.StoreUnavailable = b.counter("uns_ingest_store_unavailable_total", "Times the historian took no write for a whole retry budget.")
	m.Quarantined = b.counter("uns_ingest_quarantined_total", "Values given up on after repeated hung writes.")
	m.HistorianBytes = b.reading("uns_historian_bytes", "Size of the historian's store on disk; absent where it cannot be known.")
	m.HistorianReads = b.counters("uns_historian_reads_total", "Reads of history.", label{"result", []string{"ok", "error"}})
	m.HistorianReadSeconds = b.histogram("uns_historian_read_seconds", "Time of one page read from history.", writeBuckets)

	// Session log, retained messages, shared state.
	m.SessionLogAppended = b.counter("uns_broker_session_log_values_appended_total", "Values appended to a session log.")
	m.SessionLogAppendSeconds = b.histogram("uns_broker_session_log_append_seconds", "Time of one append to a session log.", writeBuckets)
	m.SessionLogAppendsHeld = b.gauge("uns_broker_session_log_appends_held", "Values whose acknowledgment waits for room in a session log.")
	m.SessionLogAppendsRefused = b.counter("uns_broker_session_log_appends_refused_total", "Publishes refused because a session log or the retained store did not take the value within brokerSessionLogAppendWait.")
	m.SessionLogAppendsReordered = b.counter("uns_broker_session_log_appends_reordered_total", "Values that landed in a session log after a later value of their topic.")
	m.SessionLogValuesMissed = b.counter("uns_broker_session_log_values_missed_total", "Values persistent sessions missed because their session log had dropped them.")
	m.SessionLogReadsHeld = b.gauge("uns_broker_session_log_reads_held", "Sessions whose reads of their log wait for the store.")
	m.SessionLogBytes = b.gauges("uns_broker_session_log_bytes", "Bytes a workspace's session log takes in the store, one copy counted; bounded by brokerSessionLogMaxBytes. Of the logs this replica reads.", label{name: "workspace"})
	m.SessionSubscriptionsKept = b.counter("uns_broker_session_subscriptions_kept_total", "State writes that would have changed stored subscriptions without a SUBSCRIBE; the stored ones were kept. Report it.")
	m.SubscribeIndexWaitTimeouts = b.counter("uns_broker_subscribe_index_wait_timeouts_total", "SUBACKs sent before every replica was known to have applied the subscription.")
	m.RetainedMessages = b.reading("uns_broker_retained_messages", "Retained messages held.")
	m.RetainedPutSeconds = b.histogram("uns_broker_retained_put_seconds", "Time of one write to the retained store.", writeBuckets)

	// Cluster. On a single node the readings are absent, but for the counter.
	m.Members = b.reading("uns_broker_cluster_members", "Members of the cluster that are neither gone nor stopped, this replica included.")
	m.MembersGone = b.counter("uns_broker_cluster_members_gone_total", "Replicas this one saw taken for gone.")
	m.MeshLinksUp = b.reading("uns_broker_cluster_mesh_links_up", "Mesh links to other replicas that are up.")
	m.MeshLinksExpected = b.reading("uns_broker_cluster_mesh_links_expected", "Mesh links there ought to be: one to each other replica that serves, none while this one does not.")
	m.MeshValuesLost = b.counter("uns_broker_cluster_mesh_values_lost_total", "Live values for other replicas that were lost because more than 64 MiB waited for a link.")
	m.FormatUnreadable = b.count("uns_broker_cluster_format_unreadable_total", "Records met in a newer format than this release reads, and attempts to join below the format floor.")

	// HTTP.
	m.HTTPRequests = b.counters("uns_http_requests_total", "HTTP requests answered, by route pattern and status code.", label{name: "route"}, label{name: "code"})
	m.HTTPRequestSeconds = b.histograms("uns_http_request_seconds", "Time to answer an HTTP request, by route pattern.", waitBuckets, label{name: "route"})

	m.rows = b.rows
	return m
}

// Handler serves the metrics in the format the scraper asks for.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// Gatherer is the registry, for tests of those who count.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }
