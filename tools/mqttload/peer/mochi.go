package peer

import (
	"context"
	"fmt"
	"path/filepath"

	"maestrohub.io/uns/tools/launch"
)

// buildMochi compiles mochi-mqtt's own command that reads a configuration file.
func buildMochi() (string, error) {
	return launch.Build("tools/peers", "github.com/mochi-mqtt/server/v2/cmd/docker", "mochi")
}

// Mochi is mochi-mqtt with its Pebble store, as its example sets it: without syncs.
// Of its limits the queue of a client is raised, which it would drop from; one that is
// given must be given with all others.
func Mochi() Kind {
	return Kind{
		Name:    "mochi-mqtt",
		Means:   "it was read; it is acknowledged before it is given to subscribers and their sessions, which are stored without a sync, so a kill in between takes it",
		Version: func() (string, error) { return moduleVersion(buildMochi) },
		Start: func(ctx context.Context, dir string) (*Running, error) {
			binary, err := buildMochi()
			if err != nil {
				return nil, err
			}
			port, err := reserve()
			if err != nil {
				return nil, err
			}
			return startSingle(ctx, "mochi-mqtt", binary, dir, port, fmt.Sprintf(`listeners:
  - {type: tcp, id: bench, address: "127.0.0.1:%d"}
hooks:
  auth: {allow_all: true}
  storage:
    pebble: {path: %q, mode: NoSync}
options:
  capabilities:
    maximum_clients: 20000
    maximum_message_expiry_interval: 86400
    maximum_client_writes_pending: 100000
    maximum_session_expiry_interval: 4294967295
    receive_maximum: 1024
    maximum_inflight: 65535
    topic_alias_maximum: 65535
    shared_sub_available: 1
    minimum_protocol_version: 3
    maximum_qos: 2
    retain_available: 1
    wildcard_sub_available: 1
    sub_id_available: 1
logging: {level: ERROR}
`, port, filepath.Join(dir, "pebble")), "-config")
		},
	}
}
