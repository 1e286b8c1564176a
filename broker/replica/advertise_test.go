package replica

import "testing"

func TestMeshAddressThatOthersAreTold(t *testing.T) {
	for _, c := range []struct{ name, advertise, listening, want string }{
		{"as it is set", "10.0.0.7:7884", "[::]:7884", "10.0.0.7:7884"},
		{"one setting for all replicas", "{replicaId}.uns-headless.plant.svc:7884", "[::]:7884", "uns-1.uns-headless.plant.svc:7884"},
		{"listens on every address", "", "[::]:7884", "uns-1:7884"},
		{"listens on one address", "", "10.0.0.7:7884", "10.0.0.7:7884"},
	} {
		if got := meshAddress(c.advertise, "uns-1", c.listening); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
