package clients_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"maestrohub.io/uns/tests/harness"
)

// python is Debian's, whose python3-paho-mqtt no other interpreter sees.
const python = "/usr/bin/python3"

var (
	everyVersion   = []version{v31, v311, v5}
	everyTransport = []transport{tcp, overTLS, ws, wss}
)

func pahoPython(t *testing.T) vendor {
	harness.Require(t, python, "/usr/lib/python3/dist-packages/paho/mqtt/client.py")
	return vendor{short: "ppy", over: each(everyVersion, everyTransport...), open: func(t *testing.T, o options) session {
		return openProgram(t, o, "Paho Python", python, "testdata/driver.py")
	}}
}

func pahoC(t *testing.T) vendor {
	harness.Require(t, "/usr/bin/gcc", "/usr/include/MQTTClient.h")
	binary := filepath.Join(t.TempDir(), "driver")
	out, err := exec.Command("gcc", "-Wall", "-Wextra", "-O1", "-D_GNU_SOURCE", "-o", binary, "testdata/driver.c", "-lpaho-mqtt3cs").CombinedOutput()
	if err != nil {
		t.Fatalf("compile testdata/driver.c: %v\n%s", err, out)
	}
	return vendor{short: "pc", over: each(everyVersion, everyTransport...), open: func(t *testing.T, o options) session {
		return openProgram(t, o, "Paho C", binary)
	}}
}

// mqttJS is MQTT.js in Node.js. A process of it costs the better part of a second
// of CPU, so not every version meets every transport.
func mqttJS(t *testing.T) vendor {
	harness.Require(t, "mqttjs/node_modules/mqtt/package.json")
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not there: run `make setup`")
	}
	over := slices.Concat(each(everyVersion, tcp), each([]version{v311, v5}, overTLS), each([]version{v5}, ws, wss))
	return vendor{short: "js", over: over, open: func(t *testing.T, o options) session {
		return openProgram(t, o, "MQTT.js", node, "mqttjs/node.mjs")
	}}
}
