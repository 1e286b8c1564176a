// What the broker reports, in plain words with what to do. Each entry: a pattern of the
// reason as the broker writes it, what it means, the runbook's page and heading.

const notReady = [
  [/^fenced: /, "It has stepped aside: it could not renew its lease in the shared stores (NATS), so it closed its connections and refuses new ones. Its devices go to the other replicas. It serves again by itself once NATS answers.", "not-ready.md#fenced"],
  [/^duplicateReplicaId/, "Another process runs under the same replica id. Only one of them may serve: stop the other, or give it an id of its own.", "not-ready.md#duplicate-replica-id"],
  [/^belowFormatFloor/, "The cluster already writes records that this release cannot read. Start this replica with the release the others run, or a newer one.", "not-ready.md#below-the-format-floor"],
  [/^joining/, "It is starting: it registers with the others and reads what they share. This takes a few seconds; if it stays, the shared stores (NATS) do not take its writes.", "not-ready.md#joining"],
  [/stopping/, "It was asked to stop and hands its sessions over.", "not-ready.md#stopping"],
  [/^historian/, "The historian does not take values, so none can be acknowledged. Devices hold theirs and send them again.", "MaestroHubUNSIngestStoreUnavailable.md"],
  [/^shared state/, "The shared stores (NATS) take no writes. Nothing acknowledged is lost; devices wait or are refused until NATS answers.", "not-ready.md#shared-state"],
];

export function whyNotReady(reason) {
  for (const [pattern, words, page] of notReady) if (pattern.test(reason)) return { words, page };
  return { words: "It does not serve devices.", page: "not-ready.md" };
}

// Why one replica has no link to another: a pattern of the reason as the mesh writes it, what
// it means in few words and in more, and the runbook's page and heading. The first that fits.
const down = "MaestroHubUNSBrokerMeshLinksDown.md";
const noLink = [
  [/^replica \S+ does not serve now/, "this one does not serve", "The one that answers does not serve now itself. Its links come back with it.", "not-ready.md"],
  [/does not serve now/, "it does not serve now", "The other one starts, stops or has stepped aside. The link comes back with it.", "not-ready.md"],
  [/this replica stops/, "one of the two stops", "One of the two was asked to stop. The link comes back when it has started again.", "not-ready.md#stopping"],
  [/this replica may not act/, "one of the two stepped aside", "One of the two could not renew its lease in the shared stores (NATS) and has stepped aside. The link comes back with it.", "not-ready.md#fenced"],
  [/is not known to be a member/, "not seen as a member yet", "One of the two has not seen the other join yet. That takes a second or two; if it stays, one of them does not read the shared stores (NATS).", "not-ready.md#joining"],
  [/^(refused by the other replica: )?incarnation \d+ of|lives is over/, "it was started anew", "One of the two was started anew. They link again by themselves at once.", down],
  [/^(refused by the other replica: )?(attempt \d+ of|a newer connection)/, "linking", "A later attempt to link came first and takes its place.", down],
  [/still being handled/, "catching up", "It still works through what came before the link was lost, and links then.", down],
  [/no mesh protocol version in common/, "releases that do not link", "The two run releases that have no mesh protocol in common. Finish the upgrade, one release at a time, or roll it back.", `${down}#versions-that-do-not-link`],
  [/was meant|dialed replica|does not dial replica/, "another replica answers", "At its address another replica answers than the one that was meant: the names of the headless Service are mixed up, or two processes run under one replica id.", `${down}#reachability`],
  [/i\/o timeout|deadline exceeded|nothing was heard|no route to host|unreachable/, "nothing comes from it", "Nothing comes from it: it hangs, or the network between the two, a network policy too, lets nothing through.", `${down}#reachability`],
  [/connection refused/, "nobody listens there", "Nobody listens at its address: its process does not run, or its mesh port is another.", `${down}#reachability`],
  [/no such host|server misbehaving/, "its name is not known", "Its name has no address: its pod is gone, or the headless Service does not have it.", `${down}#reachability`],
  [/certificate|tls: |end does not speak/, "a certificate that is not trusted", "What answers does not show a certificate of this deployment: it has another one than the others, or is no replica.", `${down}#certificates`],
  [/EOF|connection reset|broken pipe|closed network connection/, "the connection was cut", "The connection was cut: the other process ended, or something between the two closes connections.", `${down}#reachability`],
  [/frame/, "not understood", "What came is not what this release expects. They link anew by themselves; if it goes on, report it.", down],
];

export function whyNoLink(reason) {
  for (const [pattern, few, words, page] of noLink) if (pattern.test(reason)) return { few, words, page };
  return { few: reason || "no link yet", words: reason ? "" : "They have not linked yet.", page: down };
}

// How slow NATS is now, by what one confirmed write took. The bounds are where the broker
// behaves differently: up to 2 s full service, up to 6 s no fence but waiting devices.
export function band(store) {
  const seconds = Math.max(store.roundTripSeconds, store.silentSeconds > 5 ? store.silentSeconds : 0);
  if (store.kind !== "jetstream") return { name: "in memory", tone: "good", words: "" };
  if (seconds <= 0.25) return { name: "full service", tone: "good", words: "" };
  if (seconds <= 2) return { name: "full service, slower", tone: "good", words: "Values are acknowledged and delivered, later than usual." };
  if (seconds <= 6) return { name: "devices wait", tone: "warn", words: "NATS is slow: CONNECTs wait or are refused for now (0x88), publishes are acknowledged late. No replica steps aside yet and nothing is lost." };
  return { name: "stepping aside", tone: "bad", words: "NATS is too slow: replicas step aside, again and again while it lasts. Nothing acknowledged is lost; it recovers by itself once NATS answers in time." };
}

const reasons = {
  bad_credentials: "wrong client id or secret", throttled: "held off after failed sign-ins", credential_check_unavailable: "the credential could not be checked in time (NATS slow)",
  max_clients: "maxClients reached", max_pending_connections: "maxPendingConnections reached", max_connects_authenticating: "maxConnectsAuthenticating reached",
  max_connections_per_credential: "maxConnectionsPerCredential reached", max_connections_per_source: "maxConnectionsPerSource reached", client_id_in_use: "client id held by another identity",
  taken_over: "the same client identifier connected again meanwhile", connect_budget: "connectBudget used up (NATS slow)", store_unavailable: "the shared stores do not answer", fenced: "the replica has stepped aside", stopping: "the replica stops",
  connect_timeout: "no CONNECT in time", connect_packet_too_large: "CONNECT larger than maxConnectPacketBytes", client_id_invalid: "client id not allowed", will_not_authorized: "Will outside its own inbox",
  unsupported_protocol_version: "not MQTT 3.1, 3.1.1 or 5", not_inbox: "not published to an inbox", other_inbox: "another client's inbox", other_workspace: "another workspace", not_granted: "not granted to this client",
  payload: "not a value", schema: "not what its schema says", range: "outside its range", quality: "quality not allowed", too_large: "too large", too_old: "older than historian.maxAge", topic_invalid: "topic too deep or too long",
  historian_unavailable: "the historian did not take it", historian_quarantined: "given up on after hung writes", no_room: "no room in the lane in time", log_timeout: "the session log did not take it in time", log_refused: "the session log refused it",
  retained_timeout: "the retained store did not take it in time", keep_alive: "silent beyond its keep alive", connection_lost: "connection lost", client: "left properly", taken_over: "the same client connected again",
  refused_publish: "an MQTT 3 publish was refused", revoked: "credential revoked, disabled or rotated", write_stalled: "did not read what it was sent", receive_maximum: "more in flight than allowed",
};

export const reasonInWords = (reason) => reasons[reason] || reason.replaceAll("_", " ");

export function bytes(n) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) if (n >= size) return `${(n / size).toFixed(n < 10 * size ? 1 : 0)} ${unit}`;
  return `${n} B`;
}

export function duration(seconds) {
  if (seconds < 0.0995) return `${Math.max(0, seconds * 1000).toFixed(seconds < 0.0095 ? 1 : 0)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function rate(n) {
  if (n == null) return "–";
  return n === 0 ? "0" : n < 10 ? n.toFixed(1) : Math.round(n).toLocaleString("en");
}
