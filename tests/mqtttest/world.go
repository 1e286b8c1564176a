package mqtttest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// World is the model every broker of this package starts with.
//
//	plant   retained/#       any JSON value, the last is retained
//	        raw/retained/#   opaque bytes, the last is retained
//	        raw/#            opaque bytes
//	        level/#          a number from 0 to 100, at least of uncertain quality; alerts: warn above 80, critical above 90
//	        small/#          any JSON value of at most 64 bytes
//	        anything else    any JSON value
//	office  retained/#, raw/# as in plant
const World = `
openWorkspaces: false
schemas:
  bytes: {type: opaque}
  level: {type: number, min: 0, max: 100}
workspaces:
  - slug: plant
    bindings:
      - {topic: "retained/#", retain: true}
      - {topic: "raw/retained/#", schema: bytes, retain: true}
      - {topic: "raw/#", schema: bytes}
      - {topic: "level/#", schema: level, minQuality: uncertain, alerts: {warn: {above: 80}, critical: {above: 90}}}
      - {topic: "small/#", maxPayloadBytes: 64}
  - slug: office
    bindings:
      - {topic: "retained/#", retain: true}
      - {topic: "raw/#", schema: bytes}
`

// Clients are the API clients every broker of this package starts with, their
// secrets (Secret) filled in. dev-a and dev-b may do everything in plant, other
// in office; viewer reads view/# of plant and writes nothing; admin has every scope.
const clients = `
clients:
  - {id: dev-a, workspace: plant, secret: "%s"}
  - {id: dev-b, workspace: plant, secret: "%s"}
  - {id: other, workspace: office, secret: "%s"}
  - {id: viewer, workspace: plant, secret: "%s", publish: [], subscribe: ["view/#"]}
  - {id: admin, workspace: plant, secret: "%s", scopes: ["uns:read", "uns:write", "uns_settings:update", "api_clients:manage", "api_clients:manage:all"]}
`

// Secret is the secret of an API client of this package: random in form, so that
// the broker need not hash it slowly.
func Secret(id string) string {
	sum := sha256.Sum256([]byte("mqtttest/" + id))
	return hex.EncodeToString(sum[:])
}

// workspaceOf is the workspace of an API client of this package.
func workspaceOf(user string) string {
	if user == "other" {
		return "office"
	}
	return "plant"
}

// version is the first level of every topic.
const version = "mHv1.0"

// Data is the full name of a topic's live copy.
func Data(workspace, topic string) string { return version + "/" + workspace + "/" + topic }

// Inbox is the full name an API client of this package publishes a topic to.
func Inbox(user, topic string) string {
	return version + "/" + workspaceOf(user) + "/_ingress/" + user + "/" + topic
}

// writeWorld writes the model and the clients into dir and returns their paths.
func writeWorld(dir string) (model, seed string, err error) {
	model, seed = filepath.Join(dir, "model.yaml"), filepath.Join(dir, "clients.yaml")
	if err := os.WriteFile(model, []byte(World), 0o600); err != nil {
		return "", "", fmt.Errorf("write model: %w", err)
	}
	text := fmt.Sprintf(clients, Secret("dev-a"), Secret("dev-b"), Secret("other"), Secret("viewer"), Secret("admin"))
	if err := os.WriteFile(seed, []byte(text), 0o600); err != nil {
		return "", "", fmt.Errorf("write clients: %w", err)
	}
	return model, seed, nil
}
