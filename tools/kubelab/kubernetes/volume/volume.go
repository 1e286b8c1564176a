package volume

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Provisioner is what a StorageClass names to have its volumes made here.
const Provisioner = "kubelab/volume"

// madeBy and selectedNode are annotations Kubernetes' own controllers read and write.
const (
	madeBy       = "pv.kubernetes.io/provisioned-by"
	selectedNode = "volume.kubernetes.io/selected-node"
)

// Run makes and removes volumes until ctx ends.
func Run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("volume", flag.ExitOnError)
	klog.InitFlags(flags)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	dir := flags.String("dir", "", "folder in which each volume is one")
	_ = flags.Parse(args) // ExitOnError
	if !filepath.IsAbs(*dir) {
		return fmt.Errorf("-dir (%q) must be an absolute path", *dir)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return newMaker(client, *dir).run(ctx)
}

// maker holds what is known of the cluster. One goroutine works on it, so that no
// claim gets two volumes.
type maker struct {
	client  kubernetes.Interface
	dir     string
	factory informers.SharedInformerFactory
	queue   workqueue.TypedRateLimitingInterface[string]
}

func newMaker(client kubernetes.Interface, dir string) *maker {
	return &maker{
		client: client, dir: dir,
		factory: informers.NewSharedInformerFactory(client, 0),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
}

// everything is the queue's only item: each change has all claims and volumes
// looked at, which are few.
const everything = "everything"

func (m *maker) run(ctx context.Context) error {
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { m.queue.Add(everything) },
		UpdateFunc: func(any, any) { m.queue.Add(everything) },
		DeleteFunc: func(any) { m.queue.Add(everything) },
	}
	for _, i := range []cache.SharedIndexInformer{
		m.factory.Core().V1().PersistentVolumeClaims().Informer(),
		m.factory.Core().V1().PersistentVolumes().Informer(),
		m.factory.Storage().V1().StorageClasses().Informer(),
	} {
		if _, err := i.AddEventHandler(changed); err != nil {
			return fmt.Errorf("watch the cluster: %w", err)
		}
	}
	m.factory.Start(ctx.Done())
	m.factory.WaitForCacheSync(ctx.Done())
	context.AfterFunc(ctx, m.queue.ShutDown)
	for {
		item, shutdown := m.queue.Get()
		if shutdown {
			return nil
		}
		if err := m.sync(ctx); err != nil {
			klog.Errorf("%v", err)
			m.queue.AddRateLimited(item)
		} else {
			m.queue.Forget(item)
		}
		m.queue.Done(item)
	}
}

// sync brings every claim and every volume to where it should be.
func (m *maker) sync(ctx context.Context) error {
	var errs []error
	claims, err := m.factory.Core().V1().PersistentVolumeClaims().Lister().List(labels.Everything())
	errs = append(errs, err)
	for _, c := range claims {
		if err := m.provide(ctx, c); err != nil {
			errs = append(errs, fmt.Errorf("make a volume for %s/%s: %w", c.Namespace, c.Name, err))
		}
	}
	for _, c := range claims {
		if err := m.expand(ctx, c); err != nil {
			errs = append(errs, fmt.Errorf("expand the volume of %s/%s: %w", c.Namespace, c.Name, err))
		}
	}
	volumes, err := m.factory.Core().V1().PersistentVolumes().Lister().List(labels.Everything())
	errs = append(errs, err)
	for _, v := range volumes {
		if err := m.reclaim(ctx, v); err != nil {
			errs = append(errs, fmt.Errorf("remove volume %s: %w", v.Name, err))
		}
	}
	return errors.Join(errs...)
}

// provide makes the volume of a claim that is due for one.
func (m *maker) provide(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	if claim.Spec.VolumeName != "" || claim.Spec.StorageClassName == nil || claim.DeletionTimestamp != nil {
		return nil
	}
	class, err := m.factory.Storage().V1().StorageClasses().Lister().Get(*claim.Spec.StorageClassName)
	if apierrors.IsNotFound(err) || err == nil && class.Provisioner != Provisioner {
		return nil
	}
	if err != nil {
		return err
	}
	node := claim.Annotations[selectedNode]
	if node == "" && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storage.VolumeBindingWaitForFirstConsumer {
		return nil // the scheduler will name one
	}
	if _, err := m.factory.Core().V1().PersistentVolumes().Lister().Get(volumeName(claim)); err == nil {
		return nil // made, and not bound yet
	}
	path := filepath.Join(m.dir, strings.Join([]string{claim.Namespace, claim.Name, string(claim.UID)}, "_"))
	// Anybody may write, as on a fresh disk of a cloud: the kubelet gives it to the
	// pod's fsGroup, and a pod without one is not root either.
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o777); err != nil { // the umask
		return err
	}
	_, err = m.client.CoreV1().PersistentVolumes().Create(ctx, volume(claim, class, node, path), meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		klog.Infof("made %s for %s/%s in %s", volumeName(claim), claim.Namespace, claim.Name, path)
	}
	return err
}

func volumeName(claim *core.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// volume is the object for a claim's folder.
func volume(claim *core.PersistentVolumeClaim, class *storage.StorageClass, node, path string) *core.PersistentVolume {
	where := core.NodeSelectorRequirement{Key: core.LabelHostname, Operator: core.NodeSelectorOpIn, Values: []string{node}}
	if class.Parameters["mobile"] == "true" || node == "" {
		where = core.NodeSelectorRequirement{Key: core.LabelOSStable, Operator: core.NodeSelectorOpIn, Values: []string{"linux"}}
	}
	reclaim := core.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	mode := core.PersistentVolumeFilesystem
	return &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: volumeName(claim), Annotations: map[string]string{madeBy: Provisioner}},
		Spec: core.PersistentVolumeSpec{
			Capacity:                      core.ResourceList{core.ResourceStorage: claim.Spec.Resources.Requests[core.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			ClaimRef:                      &core.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeReclaimPolicy: reclaim,
			StorageClassName:              class.Name,
			VolumeMode:                    &mode,
			PersistentVolumeSource:        core.PersistentVolumeSource{Local: &core.LocalVolumeSource{Path: path}},
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{
				{MatchExpressions: []core.NodeSelectorRequirement{where}},
			}}},
		},
	}
}

// expand says of a volume that it is as large as its claim asks for by now. The API
// server lets a claim ask for more where its class allows that, and never for less.
func (m *maker) expand(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	want := claim.Spec.Resources.Requests[core.ResourceStorage]
	if claim.Status.Phase != core.ClaimBound || want.Cmp(claim.Status.Capacity[core.ResourceStorage]) <= 0 {
		return nil
	}
	found, err := m.factory.Core().V1().PersistentVolumes().Lister().Get(claim.Spec.VolumeName)
	if err != nil || found.Annotations[madeBy] != Provisioner {
		return err
	}
	if want.Cmp(found.Spec.Capacity[core.ResourceStorage]) > 0 {
		v := found.DeepCopy()
		v.Spec.Capacity[core.ResourceStorage] = want
		if _, err := m.client.CoreV1().PersistentVolumes().Update(ctx, v, meta.UpdateOptions{}); err != nil {
			return err
		}
	}
	c := claim.DeepCopy()
	c.Status.Capacity[core.ResourceStorage] = want
	if _, err := m.client.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, meta.UpdateOptions{}); err != nil {
		return err
	}
	klog.Infof("expanded %s for %s/%s to %s", found.Name, c.Namespace, c.Name, want.String())
	return nil
}

// reclaim removes a released volume whose policy is Delete, and its folder.
func (m *maker) reclaim(ctx context.Context, v *core.PersistentVolume) error {
	if v.Annotations[madeBy] != Provisioner || v.Status.Phase != core.VolumeReleased || v.DeletionTimestamp != nil ||
		v.Spec.PersistentVolumeReclaimPolicy != core.PersistentVolumeReclaimDelete || v.Spec.Local == nil {
		return nil
	}
	if filepath.Dir(v.Spec.Local.Path) != filepath.Clean(m.dir) {
		return fmt.Errorf("its path %s is not directly in %s", v.Spec.Local.Path, m.dir)
	}
	if err := os.RemoveAll(v.Spec.Local.Path); err != nil {
		return err
	}
	err := m.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, meta.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		klog.Infof("removed %s with %s", v.Name, v.Spec.Local.Path)
	}
	return err
}
