package machine

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestANetworkInUseIsSaid(t *testing.T) {
	routes := `default via 192.0.2.1 dev eth0
192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2
local 127.0.0.0/8 dev lo table local proto kernel scope host src 127.0.0.1
local 172.31.250.1 dev other table local proto kernel scope host src 172.31.250.1
broadcast 192.0.2.255 dev eth0 table local proto kernel scope link src 192.0.2.2
10.0.0.0/8 via 192.0.2.1 dev eth0
10.250.1.0/24 via 172.31.250.11 dev lab0
`
	for network, wrong := range map[string]string{
		"172.31.250.0/24": "172.31.250.1 dev other",
		"10.250.0.0/16":   "10.250.1.0/24 via",
		"10.251.0.0/16":   "", // a wider route covers it; the lab's own wins
		"172.30.0.0/16":   "",
	} {
		err := conflict(routes, []netip.Prefix{netip.MustParsePrefix(network)})
		switch {
		case wrong == "" && err != nil:
			t.Errorf("%s: %v", network, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong) || !strings.Contains(err.Error(), network)):
			t.Errorf("%s: the error %v does not name it and %q", network, err, wrong)
		}
	}
}

func TestMountsBelowAFolder(t *testing.T) {
	table := `/dev/vda / ext4 rw 0 0
tmpfs /var/lib/lab tmpfs rw 0 0
tmpfs /var/lib/lab/n1/kubelet/pods/a/volumes/x tmpfs rw 0 0
overlay /var/lib/lab/n1/run/with\040space overlay rw 0 0
tmpfs /var/lib/lab/n1/kubelet tmpfs rw 0 0
tmpfs /var/lib/laboratory/x tmpfs rw 0 0
`
	want := []string{"/var/lib/lab/n1/kubelet", "/var/lib/lab/n1/kubelet/pods/a/volumes/x", "/var/lib/lab/n1/run/with space"}
	if got := below(table, "/var/lib/lab"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q: what is on the folder itself and beside it is not below it", got, want)
	}
}

func TestSysctlsThatThisKernelLacksAreLeftOut(t *testing.T) {
	got, err := ReadSysctls([]string{"kernel.ostype", "kernel.no_such_setting"})
	if err != nil || len(got) != 1 || got["kernel.ostype"] != "Linux" {
		t.Fatalf("%v, %v", got, err)
	}
	if err := got.Restore(); err != nil { // nothing has changed, so nothing is written
		t.Error(err)
	}
}

func TestRemovingWhatIsNotThereIsNoError(t *testing.T) {
	n := Network{Bridge: "kubelab-none", Nodes: []NetworkNode{{Namespace: "kubelab-none1"}}}
	if got := n.Present(); len(got) != 0 {
		t.Fatalf("present: %q", got)
	}
	if err := n.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if err := Cgroup("kubelab-none/node1").Remove(); err != nil {
		t.Error(err)
	}
	if err := Unmount(t.TempDir()); err != nil {
		t.Error(err)
	}
}
