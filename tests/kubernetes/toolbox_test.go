package kubernetes_test

import (
	"context"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// image is the reference of one of the lab's images, in the registry of the cluster.
func image(name string) string {
	if *registry == "" {
		return name
	}
	return *registry + "/" + name
}

// toolbox is a pod that a test looks around from.
type toolbox struct{ namespace, name string }

// startToolbox starts a pod with labels; it is gone when the test ends.
func startToolbox(t *testing.T, namespace, name string, labels map[string]string) toolbox {
	t.Helper()
	yes, no, user, grace := true, false, int64(65532), int64(0)
	pod := &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels},
		Spec: core.PodSpec{
			AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace,
			SecurityContext: &core.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user,
				SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}},
			Containers: []core.Container{{Name: "toolbox", Image: image("kubelab/toolbox:latest"),
				SecurityContext: &core.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}}}}},
		},
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := cluster.CoreV1().Pods(namespace).Delete(ctx, name, meta.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if _, err := cluster.CoreV1().Pods(namespace).Create(t.Context(), pod, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, name+" to run", func() (bool, string) {
		pod, err := cluster.CoreV1().Pods(namespace).Get(t.Context(), name, meta.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return isReady(pod), string(pod.Status.Phase)
	})
	return toolbox{namespace, name}
}

// run runs a command of the toolbox and returns what it printed.
func (b toolbox) run(ctx context.Context, args ...string) (string, error) {
	return cluster.command(ctx, "kubectl", append([]string{"-n", b.namespace, "exec", b.name, "--", "/toolbox"}, args...)...)
}
