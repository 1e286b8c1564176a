package clients_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"maestrohub.io/uns/tests/harness"
)

// python is Debian's, whose python3-paho-mqtt no other interpreter sees.
const python = "/usr/bin/python3"

func pahoPython(t *testing.T) vendor {
	harness.Require(t, python, "/usr/lib/python3/dist-packages/paho/mqtt/client.py")
	return vendor{
		name: "paho-python", short: "ppy", versions: []version{v31, v311, v5}, transports: []transport{tcp, overTLS, ws, wss},
		open: func(t *testing.T, o options) session {
			return open(t, o, "Paho Python", python, []string{"testdata/driver.py"})
		},
	}
}

func pahoC(t *testing.T) vendor {
	harness.Require(t, "/usr/bin/gcc", "/usr/include/MQTTClient.h")
	binary := filepath.Join(t.TempDir(), "driver")
	out, err := exec.Command("gcc", "-Wall", "-Wextra", "-O1", "-D_GNU_SOURCE", "-o", binary, "testdata/driver.c", "-lpaho-mqtt3cs").CombinedOutput()
	if err != nil {
		t.Fatalf("compile testdata/driver.c: %v\n%s", err, out)
	}
	return vendor{
		name: "paho-c", short: "pc", versions: []version{v31, v311, v5}, transports: []transport{tcp, overTLS, ws, wss},
		open: func(t *testing.T, o options) session { return open(t, o, "Paho C", binary, nil) },
	}
}

func mqttJS(t *testing.T) vendor {
	node := nodeJS(t)
	return vendor{
		name: "mqttjs", short: "js", versions: []version{v31, v311, v5}, transports: []transport{tcp, overTLS, ws, wss},
		open: func(t *testing.T, o options) session { return open(t, o, "MQTT.js", node, []string{"mqttjs/node.mjs"}) },
	}
}

// nodeJS returns the path of node, with the packages of mqttjs installed.
func nodeJS(t *testing.T) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not there: run `make setup`")
	}
	harness.Require(t, "mqttjs/node_modules/mqtt/package.json", "mqttjs/node_modules/playwright-core/package.json")
	return node
}
