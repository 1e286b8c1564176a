package clients_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// recipe is a fenced block of runbooks/connect.md.
type recipe struct {
	heading, language, how, text string
	line                         int
}

func recipes(t *testing.T) (all []recipe) {
	t.Helper()
	page, err := os.ReadFile("../../runbooks/connect.md")
	if err != nil {
		t.Fatal(err)
	}
	fence := regexp.MustCompile("^```(\\w+) (.+)$")
	heading := ""
	var open *recipe
	for i, line := range strings.Split(string(page), "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open != nil && line == "```":
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case m != nil:
			open = &recipe{heading: heading, language: m[1], how: m[2], line: i + 1}
		case strings.HasPrefix(line, "```"):
			t.Errorf("connect.md:%d: a block without a tag", i+1)
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimPrefix(line, "## ")
		}
	}
	return all
}

// Every recipe of the page for device developers is run as it stands, against a broker
// with TLS, and must publish, receive its live copy and end well.
func TestEveryRecipeRunsAsItStands(t *testing.T) {
	b := harness.Start(t, harness.Options{Clients: harness.Clients("press-7"), TLS: true})
	host, port, err := net.SplitHostPort(b.TLS)
	if err != nil {
		t.Fatal(err)
	}
	environment := append(os.Environ(), "BROKER_HOST="+host, "BROKER_PORT="+port, "BROKER_CA="+b.CAFile(), "CLIENT_ID=press-7",
		"CLIENT_SECRET="+harness.Secret("press-7"), "WORKSPACE="+harness.Workspace, "PATH="+filepath.Dir(harness.Binary(t))+":"+os.Getenv("PATH"))
	variables := 0
	ran := map[string]bool{}
	for _, r := range recipes(t) {
		t.Run(fmt.Sprintf("%s line %d", r.heading, r.line), func(t *testing.T) {
			switch {
			case r.how == "setup":
				for _, name := range []string{"BROKER_HOST", "BROKER_PORT", "BROKER_CA", "CLIENT_ID", "CLIENT_SECRET", "WORKSPACE"} {
					if !strings.Contains(r.text, "export "+name+"=") {
						t.Errorf("connect.md:%d does not set %s", r.line, name)
					}
				}
				variables++
				return
			case strings.HasPrefix(r.how, "skip="):
				return // the page says why
			case r.how != "run" && r.how != "try" && r.how != "stand-in":
				t.Fatalf("connect.md:%d: tag %q is none of setup, try, run, stand-in, skip=reason", r.line, r.how)
			}
			ran[r.language] = true
			said := r.run(t, environment)
			if r.how == "run" && !strings.Contains(said, `21.5`) {
				t.Errorf("connect.md:%d printed no live copy:\n%s", r.line, said)
			}
		})
	}
	if variables != 1 {
		t.Errorf("connect.md has %d setup blocks, want 1", variables)
	}
	for _, language := range []string{"sh", "python", "c", "js", "go", "json", "toml"} {
		if !ran[language] {
			t.Errorf("connect.md has no %s recipe that runs", language)
		}
	}
	topics := map[string]bool{} // each recipe has its own
	for _, row := range b.History(t, "press-7", "line/#") {
		topics[row.Topic] = true
	}
	if len(topics) != 8 {
		t.Errorf("history has values of %d of the 8 recipes", len(topics))
	}
}

// ignition is what the script of an Ignition gateway finds there, as far as it is used: what
// it publishes goes to the broker by Paho.
const ignition = `
import json, os, time, types
import paho.mqtt.client, paho.mqtt.publish

def publish(server, topic, payload, qos, retained):
    assert isinstance(payload, bytes)
    paho.mqtt.publish.single(topic, payload, qos, retained, os.environ["BROKER_HOST"], int(os.environ["BROKER_PORT"]), os.environ["CLIENT_ID"] + "-ignition",
        auth={"username": os.environ["CLIENT_ID"], "password": os.environ["CLIENT_SECRET"]}, tls={"ca_certs": os.environ["BROKER_CA"]}, protocol=paho.mqtt.client.MQTTv311)

system = types.SimpleNamespace(
    util=types.SimpleNamespace(jsonEncode=json.dumps), date=types.SimpleNamespace(now=time.time, toMillis=lambda at: int(at * 1000)),
    cirruslink=types.SimpleNamespace(engine=types.SimpleNamespace(publish=publish)))
`

// run runs a recipe the way its language is.
func (r recipe) run(t *testing.T, environment []string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(r.text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Patience)
	defer cancel()
	command := func(where, name string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(ctx, name, args...)
		c.Env, c.Dir = environment, where
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("connect.md:%d: %s: %v\n%s", r.line, name, err, out)
		}
		return string(out)
	}
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	switch r.language {
	case "sh":
		harness.Require(t, "/usr/bin/mosquitto_pub")
		return command(dir, "bash", "-euo", "pipefail", write("recipe.sh"))
	case "python":
		harness.Require(t, "/usr/lib/python3/dist-packages/paho/mqtt/client.py")
		if r.how == "stand-in" {
			r.text = ignition + strings.ReplaceAll(r.text, "/plant/", "/"+harness.Workspace+"/")
		}
		return command(dir, "/usr/bin/python3", write("recipe.py"))
	case "c":
		harness.Require(t, "/usr/include/MQTTClient.h")
		command(dir, "cc", "-Wall", "-Werror", "-o", filepath.Join(dir, "recipe"), write("recipe.c"), "-lpaho-mqtt3cs")
		return command(dir, filepath.Join(dir, "recipe"))
	case "js":
		harness.Require(t, "mqttjs/node_modules/mqtt/package.json")
		if err := os.Symlink(filepath.Join(root, "tests/clients/mqttjs/node_modules"), filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		return command(dir, "node", write("recipe.mjs"))
	case "go":
		return command(root, "go", "run", write("recipe.go"))
	case "json":
		return nodeRED(t, r.text, dir, environment)
	case "toml":
		return telegraf(t, write("telegraf.conf"), environment)
	}
	t.Fatalf("connect.md:%d: nothing runs %s", r.line, r.language)
	return ""
}
