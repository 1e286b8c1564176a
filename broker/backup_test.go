package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupSaysWhatItLacks: the command is there, and names what is wrong.
func TestBackupSaysWhatItLacks(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"backup", "save"}, "name the folder to make"},
		{[]string{"backup", "save", "x"}, "name the configuration file of a replica with --config, or the NATS servers with --server"},
		{[]string{"backup", "save", "x", "--keep", "3"}, "--keep 3: wants --root"},
		{[]string{"backup", "check", filepath.Join(empty, "none")}, "there is no such folder"},
		{[]string{"backup", "check", empty}, "it holds none of the broker's streams"},
		{[]string{"backup", "restore", filepath.Join(empty, "latest")}, "holds no finished backup"},
		{[]string{"backup", "save", filepath.Join(empty, "b"), "--server", "nats://127.0.0.1:1", "--timeout", "1ms"}, "connect to NATS at nats://127.0.0.1:1"},
	} {
		var out bytes.Buffer
		root := command(&out, &out)
		root.SetArgs(c.args)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("broker %s: %v, want %q", strings.Join(c.args, " "), err, c.want)
		}
	}
}
