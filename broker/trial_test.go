package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/replica"
)

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// pasted returns the printed lines that begin with a command.
func pasted(b *broker, program string) (lines []string) {
	for line := range strings.Lines(b.out.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, program+" ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestThePrintedLinesDoWhatTheySay pastes them into a shell as a person would.
func TestThePrintedLinesDoWhatTheySay(t *testing.T) {
	for _, program := range []string{"mosquitto_sub", "mosquitto_pub"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (make setup)", program)
		}
	}
	b := startTrial(t, t.TempDir())
	subscribe, publish, read := pasted(b, "mosquitto_sub"), pasted(b, "mosquitto_pub"), pasted(b, "curl")
	if len(subscribe) != 1 || len(publish) != 2 || len(read) != 2 {
		t.Fatalf("printed %d subscribe, %d publish and %d read lines, want 1, 2 and 2:\n%s", len(subscribe), len(publish), len(read), b.out.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	listening := exec.CommandContext(ctx, "sh", "-c", "exec "+subscribe[0])
	output, err := listening.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := listening.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	until := func(words ...string) {
		t.Helper()
		for lines.Scan() {
			if all(lines.Text(), words) {
				return
			}
		}
		t.Fatalf("mosquitto_sub ended before it printed %q: %v", words, lines.Err())
	}
	connections := strings.Replace(read[1], "/rejects", "/connections", 1)
	waitFor(t, "mosquitto_sub is subscribed", func() bool { return strings.Contains(curl(t, connections), `"subscriptions":1`) })
	if out, err := exec.CommandContext(ctx, "sh", "-c", publish[0]).CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("the good publish: %v %s", err, out)
	}
	until("mHv1.0/plant/line/1/temperature", "21.5")
	out, _ := exec.CommandContext(ctx, "sh", "-c", publish[1]).CombinedOutput()
	if !strings.Contains(string(out), "temperature wants number") {
		t.Errorf("the bad publish printed %q, want why it was refused", out)
	}
	until("mHv1.0/plant/_errors/demo", "wants number")
	_ = listening.Process.Signal(os.Interrupt)
	for lines.Scan() { // the rest of what it prints
	}
	_ = listening.Wait()

	for i, want := range []string{`"value":21.5`, `"reason":"schema"`} {
		if body := curl(t, read[i]); !strings.Contains(body, want) {
			t.Errorf("%s\nanswers %s, want %s in it", read[i], body, want)
		}
	}
	// MQTT.js itself is run by the tests of third-party clients; here it is the port that counts.
	ws := regexp.MustCompile(`WebSocket on (\d+)`).FindStringSubmatch(b.out.String())
	if ws == nil || !strings.Contains(b.out.String(), "mqtt.connect('ws://localhost:"+ws[1]+"/mqtt'") {
		t.Errorf("the page for a browser does not connect to the WebSocket port %v", ws)
	}
}

func all(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// curl does what `curl -u id:secret 'url'` does, where curl is not installed.
func curl(t *testing.T, line string) string {
	t.Helper()
	fields := strings.Fields(strings.ReplaceAll(line, "'", ""))
	if len(fields) != 4 || fields[1] != "-u" {
		t.Fatalf("line %q: not curl -u id:secret url", line)
	}
	id, secret, _ := strings.Cut(fields[2], ":")
	request, err := http.NewRequest("GET", fields[3], nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(id, secret)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body json.RawMessage
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestASecondStartShowsNoSecretAndSaysHowToGetOne(t *testing.T) {
	dir := t.TempDir()
	first := startTrial(t, dir)
	secret := strings.Fields(pasted(first, "mosquitto_sub")[0])[8]
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	write(t, first.config.ModelFile, "workspaces: [{slug: plant}]\n")
	second := startTrial(t, dir)
	out := second.out.String()
	if strings.Contains(out, secret) || !strings.Contains(out, "client rotate demo") {
		t.Errorf("the second start prints\n%s\nwant no secret, and how to rotate", out)
	}
	if data, err := os.ReadFile(second.config.ModelFile); err != nil || !strings.Contains(string(data), "workspaces: [{slug: plant}]") {
		t.Errorf("the edited model was written over: %s (error %v)", data, err)
	}
}

func TestClientCommandsManageARunningBrokerOverItsSocketAndOverTheNetwork(t *testing.T) {
	b := startTrial(t, t.TempDir())
	socket := replica.AdminSocket(b.config.DataDir)
	local := func(arguments ...string) string {
		t.Helper()
		out, err := execute(t, "", append(append([]string{"client"}, arguments...), "--socket", socket)...)
		if err != nil {
			t.Fatalf("client %v: %v", arguments, err)
		}
		return out
	}
	secret := strings.TrimSpace(local("add", "manager", "--workspace", "plant", "--scope", "api_clients:manage,uns:read"))
	if len(secret) < 43 || strings.ContainsAny(secret, " \n") {
		t.Fatalf("client add printed %q, want the secret alone", secret)
	}
	if out := local("list"); !strings.Contains(out, "manager") || !strings.Contains(out, "demo") || strings.Contains(out, secret) {
		t.Errorf("client list printed\n%s", out)
	}

	fields := strings.Fields(strings.ReplaceAll(pasted(b, "curl")[0], "'", ""))
	base := fields[3][:strings.Index(fields[3], "/api/")]
	t.Setenv(envSecret, secret)
	remote := func(in string, arguments ...string) (string, error) {
		t.Helper()
		return execute(t, in, append(append([]string{"client"}, arguments...), "--url", base, "--client-id", "manager")...)
	}
	if out, err := remote("a secret I have chosen\n", "add", "human", "--publish", "", "--subscribe", "line/#", "--secret-stdin"); err != nil || !strings.Contains(out, "human") || !strings.Contains(out, "line/#") {
		t.Errorf("add over the network printed %q, error %v", out, err)
	}
	for _, k := range []struct{ verb, want string }{{"disable", "disabled"}, {"enable", "enabled"}, {"rotate", ""}, {"delete", "deleted human"}} {
		if out, err := remote("", k.verb, "human"); err != nil || !strings.Contains(out, k.want) {
			t.Errorf("%s over the network printed %q, error %v", k.verb, out, err)
		}
	}
	if _, err := remote("", "rotate", "human"); err == nil || !strings.Contains(err.Error(), "human") || !strings.Contains(err.Error(), "404") {
		t.Errorf("rotating what is deleted: %v, want the broker's own words", err)
	}
	if _, err := remote("", "disable", "demo"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("disabling a client that can do more: %v, want 403", err)
	}
}

func TestClientCommandsSayWhatTheyNeed(t *testing.T) {
	for name, k := range map[string]struct {
		arguments []string
		word      string
	}{
		"no broker":      {[]string{"client", "list", "--socket", t.TempDir() + "/none"}, "--socket"},
		"no credential":  {[]string{"client", "list", "--url", "http://localhost:1"}, envSecret},
		"both ways":      {[]string{"client", "list", "--url", "http://localhost:1", "--socket", "x"}, "only one"},
		"no id":          {[]string{"client", "add"}, "client add: name the API client: broker client add ID"},
		"no id either":   {[]string{"client", "delete"}, "client delete: name the API client"},
		"two ids":        {[]string{"client", "delete", "a", "b"}, "names one"},
		"no workspace":   {[]string{"client", "add", "x", "--socket", "none"}, "--workspace is missing"},
		"wrong config":   {[]string{"client", "list", "--config", "/nowhere.yaml"}, "/nowhere.yaml"},
		"empty secret":   {[]string{"client", "add", "x", "--secret-stdin"}, "empty"},
		"unknown option": {[]string{"client", "list", "--nonsense"}, "nonsense"},
	} {
		if _, err := execute(t, "", k.arguments...); err == nil || !strings.Contains(err.Error(), k.word) {
			t.Errorf("%s: error %v, want %q in it", name, err, k.word)
		}
	}
}

func TestATrialStartOnTakenPortsEndsWithTheAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := trial("")
	c.DataDir = t.TempDir()
	c.ModelFile = c.DataDir + "/model.yaml"
	c.Broker.TCPListen, c.Broker.WebSocket.Listen, c.HTTP.Listen = taken.Addr().String(), ":0", ":0"
	var out, log lockedBuffer
	if err := runTrial(t.Context(), c, &out, &log); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("error %v, want the address named", err)
	}
	if out.String() != "" {
		t.Errorf("printed %q although nothing runs", out.String())
	}
}

func TestATrialIsReachedFromThisMachineAloneUnlessToldAndSaysSo(t *testing.T) {
	for host, want := range map[string]string{"": "127.0.0.1", "0.0.0.0": "0.0.0.0", "::": "::", "[::1]": "::1", "192.0.2.7": "192.0.2.7"} {
		c := trial(host)
		for _, listen := range []string{c.Broker.TCPListen, c.Broker.WebSocket.Listen, c.HTTP.Listen} {
			if h, port, err := net.SplitHostPort(listen); err != nil || h != want || port == "" {
				t.Errorf("--host %q listens on %s, want %s", host, listen, want)
			}
		}
	}
	for listening, want := range map[string][]string{
		"127.0.0.1:1": {"Only this machine can reach it", "make run LISTEN=0.0.0.0", "mqttv5 -p 1 ", "http://localhost:1/"},
		"[::]:1":      {"every address of this machine", "mqttv5 -p 1 ", "ws://localhost:1/"},
		"192.0.2.7:1": {"listens on 192.0.2.7", "mqttv5 -h 192.0.2.7 -p 1 ", "http://192.0.2.7:1/"},
		"[fd00::7]:1": {"listens on fd00::7", "mqttv5 -h fd00::7 -p 1 ", "http://[fd00::7]:1/"},
	} {
		var out lockedBuffer
		if err := printTrial(&out, trial(""), "s", func(string) string { return listening }); err != nil || !all(out.String(), want) {
			t.Errorf("on %s it prints\n%s(error %v)\nwant %q", listening, out.String(), err, want)
		}
	}
	file := write(t, t.TempDir()+"/config.yaml", "modules: {uns: {}}\n")
	if _, err := execute(t, "", "run", "--config", file, "--host", "0.0.0.0"); err == nil || !strings.Contains(err.Error(), "--host") {
		t.Errorf("--host beside --config: error %v", err)
	}
}
