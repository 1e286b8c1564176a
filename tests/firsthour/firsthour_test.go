package firsthour_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/runbooks/pages"
	"maestrohub.io/uns/tools/launch"
)

const root = "../.."

// interrupt is Ctrl-C in the process's terminal.
func interrupt(t *testing.T, p *launch.Process) {
	t.Helper()
	if err := syscall.Kill(-p.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*harness.Patience)
	defer cancel()
	if err := p.Wait(ctx); ctx.Err() != nil {
		t.Errorf("it does not end by Ctrl-C: %v", err)
	}
	if strings.Contains(p.Output(), "***") {
		t.Errorf("Ctrl-C ends it with an error of make:\n%s", p.Output())
	}
}

// The first command of the README starts a broker. What it prints publishes and reads
// history; the page is there; Ctrl-C ends it.
func TestTryIt(t *testing.T) {
	harness.Require(t, "/usr/bin/mosquitto_pub")
	block := pages.Blocks(t, root, "TestTryIt", 1)[0]
	// Its ports are fixed: it listens on an address of the loopback network that nobody
	// else has. Its data goes where nobody's is: over the folder of that name lies an
	// empty one, for this process alone.
	at := fmt.Sprintf("127.%d.%d.1", 1+os.Getpid()>>8%200, os.Getpid()%256)
	if err := os.Mkdir(root+"/data", 0o700); err == nil {
		t.Cleanup(func() { _ = os.Remove(root + "/data") })
	}
	args := []string{"--mount", "--propagation", "private"}
	if os.Geteuid() != 0 {
		args = append(args, "--map-root-user")
	}
	p := harness.Program(t, launch.Spec{Name: "make run", Path: "unshare", Dir: root, Env: []string{"LISTEN=" + at},
		Args: append(args, "bash", "-euo", "pipefail", "-c", "mount -t tmpfs none data\n"+block.Text)})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // it is compiled first
	defer cancel()
	if _, err := p.WaitFor(ctx, regexp.MustCompile("Ctrl-C")); err != nil {
		t.Fatal(err)
	}
	publishAndRead(t, p)
	if body := get(t, "http://"+at+":8080/", "", ""); !strings.Contains(body, "MQTT Broker") {
		t.Errorf("the page is %s", body)
	}
	interrupt(t, p)
}

// publishAndRead does what a program's own lines say.
func publishAndRead(t *testing.T, p *launch.Process) {
	t.Helper()
	printed := func(program string) string {
		t.Helper()
		for line := range strings.Lines(p.Output()) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, program+" ") {
				return line
			}
		}
		t.Fatalf("it prints no line with %s:\n%s", program, p.Output())
		return ""
	}
	publish := printed("mosquitto_pub")
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", publish).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", publish, err, out)
	}
	read := regexp.MustCompile(`^curl -u (\w+):(\S+) '(\S+)'$`).FindStringSubmatch(printed("curl"))
	if read == nil {
		t.Fatalf("the line to read with is %s", printed("curl"))
	}
	if body := get(t, read[3], read[1], read[2]); !strings.Contains(body, `"value":21.5`) {
		t.Errorf("%s answers %s", read[0], body)
	}
}

func get(t *testing.T, url, user, password string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		request.SetBasicAuth(user, password)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", url, response.Status, err, body)
	}
	return string(body)
}

// The cluster of the README and every fault of the drill, by the commands of the README
// and of the drill's page, which are the same.
func TestBreakIt(t *testing.T) {
	blocks := pages.Blocks(t, root, "TestBreakIt", 2)
	bare := regexp.MustCompile(`(?m) *#.*$`).ReplaceAllString(blocks[0].Text, "")
	lines := strings.Split(strings.TrimSpace(bare), "\n")
	if len(lines) != 2 || lines[1] != strings.TrimSpace(blocks[1].Text) {
		t.Fatalf("%s says\n%s\nand %s\n%s", blocks[0].At(), bare, blocks[1].At(), blocks[1].Text)
	}
	dir, err := os.MkdirTemp("", "drill") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // for PostgreSQL, which is another user if we are root
		t.Fatal(err)
	}
	start := func(line string) *launch.Process {
		return harness.Program(t, launch.Spec{Name: line, Path: "bash", Args: []string{"-euo", "pipefail", "-c", line}, Dir: root, Env: []string{"TMPDIR=" + dir}})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cluster := start(lines[0])
	if _, err := cluster.WaitFor(ctx, regexp.MustCompile("Break it")); err != nil {
		t.Fatal(err)
	}
	publishAndRead(t, cluster)
	for _, name := range []string{"drill-report.html", "drill-report.json"} {
		if _, err := os.Stat(filepath.Join(root, name)); os.IsNotExist(err) {
			t.Cleanup(func() { _ = os.Remove(filepath.Join(root, name)) })
		}
	}
	drill := start(lines[1])
	if err := drill.Wait(ctx); err != nil {
		t.Fatalf("%v\n%s", err, drill.Output())
	}
	if report, err := os.ReadFile(root + "/drill-report.html"); err != nil || !strings.Contains(string(report), "<svg") {
		t.Errorf("the report: %v, %d bytes", err, len(report))
	}
	t.Log(drill.Output())
	interrupt(t, cluster)
}
