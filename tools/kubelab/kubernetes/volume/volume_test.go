package volume

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/fake"
)

// lab is a maker over a cluster that has these objects, in its first state.
func lab(t *testing.T, class *storage.StorageClass, claim *core.PersistentVolumeClaim) (*maker, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(class, claim)
	m := newMaker(client, t.TempDir())
	m.factory.Core().V1().PersistentVolumeClaims().Informer()
	m.factory.Core().V1().PersistentVolumes().Informer()
	m.factory.Storage().V1().StorageClasses().Informer()
	m.factory.Start(t.Context().Done())
	m.factory.WaitForCacheSync(t.Context().Done())
	return m, client
}

func class(parameters map[string]string) *storage.StorageClass {
	wait := storage.VolumeBindingWaitForFirstConsumer
	return &storage.StorageClass{ObjectMeta: meta.ObjectMeta{Name: "local"}, Provisioner: Provisioner, VolumeBindingMode: &wait, Parameters: parameters}
}

func claim(node string) *core.PersistentVolumeClaim {
	name := "local"
	c := &core.PersistentVolumeClaim{
		ObjectMeta: meta.ObjectMeta{Namespace: "ns", Name: "data", UID: "1234", Annotations: map[string]string{}},
		Spec: core.PersistentVolumeClaimSpec{StorageClassName: &name, AccessModes: []core.PersistentVolumeAccessMode{core.ReadWriteOnce},
			Resources: core.VolumeResourceRequirements{Requests: core.ResourceList{core.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	if node != "" {
		c.Annotations[selectedNode] = node
	}
	return c
}

// made is the volume of the claim, nil if there is none.
func made(t *testing.T, client *fake.Clientset) *core.PersistentVolume {
	t.Helper()
	list, err := client.CoreV1().PersistentVolumes().List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func TestAClaimGetsAFolderOnTheNodeItsPodIsOn(t *testing.T) {
	m, client := lab(t, class(nil), claim("node2"))
	if err := m.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	v := made(t, client)
	if v == nil {
		t.Fatal("no volume was made")
	}
	if info, err := os.Stat(v.Spec.Local.Path); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("its folder: %v, %v", info, err)
	}
	where := v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	if where.Key != core.LabelHostname || where.Values[0] != "node2" {
		t.Errorf("it is on %+v", where)
	}
	if v.Spec.ClaimRef.UID != "1234" || v.Spec.Capacity.Storage().String() != "1Gi" {
		t.Errorf("it is for %+v, of %v", v.Spec.ClaimRef, v.Spec.Capacity)
	}
	if err := m.sync(t.Context()); err != nil { // the volume may not be seen yet
		t.Errorf("a second look: %v", err)
	}
}

func TestAMobileVolumeGoesAnywhere(t *testing.T) {
	m, client := lab(t, class(map[string]string{"mobile": "true"}), claim("node2"))
	if err := m.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if where := made(t, client).Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]; where.Key != core.LabelOSStable {
		t.Errorf("it is on %+v", where)
	}
}

func TestAClaimWaitsForItsFirstPodAndOthersAreLeftAlone(t *testing.T) {
	other := class(nil)
	other.Provisioner = "another"
	for what, c := range map[string]struct {
		class *storage.StorageClass
		claim *core.PersistentVolumeClaim
	}{"no pod yet": {class(nil), claim("")}, "another provisioner": {other, claim("node1")}} {
		m, client := lab(t, c.class, c.claim)
		if err := m.sync(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if v := made(t, client); v != nil {
			t.Errorf("%s: a volume was made", what)
		}
	}
}

func TestAVolumeGrowsWithItsClaimAndNeverShrinks(t *testing.T) {
	bound := func(asks, has string) *core.PersistentVolumeClaim {
		c := claim("node1")
		c.Spec.VolumeName = volumeName(c)
		c.Spec.Resources.Requests[core.ResourceStorage] = resource.MustParse(asks)
		c.Status = core.PersistentVolumeClaimStatus{Phase: core.ClaimBound, Capacity: core.ResourceList{core.ResourceStorage: resource.MustParse(has)}}
		return c
	}
	for _, x := range []struct{ asks, volume, has, want string }{
		{"3Gi", "1Gi", "1Gi", "3Gi"},
		{"3Gi", "3Gi", "1Gi", "3Gi"}, // ended between the two writes
		{"1Gi", "1Gi", "1Gi", "1Gi"},
		{"1Gi", "2Gi", "2Gi", "2Gi"},
	} {
		m, client := lab(t, class(nil), bound(x.asks, x.has))
		old := claim("node1")
		old.Spec.Resources.Requests[core.ResourceStorage] = resource.MustParse(x.volume)
		if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), volume(old, class(nil), "node1", filepath.Join(m.dir, "x")), meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		m.factory.WaitForCacheSync(t.Context().Done())
		deadline := time.After(20 * time.Second)
		tick := time.NewTicker(5 * time.Millisecond)
		for seen := 0; seen == 0; { // by the maker's watch
			list, err := m.factory.Core().V1().PersistentVolumes().Lister().List(labels.Everything())
			if err != nil {
				t.Fatal(err)
			}
			seen = len(list)
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatal("the volume was not seen in 20 s")
			}
		}
		tick.Stop()
		if err := m.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data", meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if v := made(t, client); v.Spec.Capacity.Storage().String() != x.want || c.Status.Capacity.Storage().String() != x.want {
			t.Errorf("%+v: the volume has %v, its claim %v", x, v.Spec.Capacity.Storage(), c.Status.Capacity.Storage())
		}
	}
}

func TestAReleasedVolumeIsRemovedWithItsFolderUnlessItIsToStay(t *testing.T) {
	for _, policy := range []core.PersistentVolumeReclaimPolicy{core.PersistentVolumeReclaimDelete, core.PersistentVolumeReclaimRetain} {
		m, client := lab(t, class(nil), claim("node1"))
		if err := m.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		v := made(t, client)
		v.Status.Phase, v.Spec.PersistentVolumeReclaimPolicy = core.VolumeReleased, policy
		if err := m.reclaim(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(v.Spec.Local.Path)
		gone := made(t, client) == nil && os.IsNotExist(err)
		if gone != (policy == core.PersistentVolumeReclaimDelete) {
			t.Errorf("%s: gone %v (%v)", policy, gone, err)
		}
	}
}

func TestAPathOutsideTheFolderIsNotRemoved(t *testing.T) {
	m, _ := lab(t, class(nil), claim(""))
	outside := filepath.Join(t.TempDir(), "precious")
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	v := volume(claim("node1"), class(nil), "node1", outside)
	v.Status.Phase = core.VolumeReleased
	if err := m.reclaim(t.Context(), v); err == nil {
		t.Error("it was removed")
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

func TestRunWorksUntilItIsStopped(t *testing.T) {
	client := fake.NewClientset(class(nil), claim("node1"))
	m := newMaker(client, t.TempDir())
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- m.run(ctx) }()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for made(t, client) == nil {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("no volume in 20 s")
		}
	}
	m.queue.ShutDown()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
