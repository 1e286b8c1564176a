package contract

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// pod is a pod an object makes.
type pod struct {
	of   *Object
	meta metav1.ObjectMeta
	spec corev1.PodSpec
}

func pods(t *testing.T, r *Release) []pod {
	t.Helper()
	var all []pod
	for _, o := range r.Objects {
		object, known, err := o.Typed()
		if err != nil {
			t.Fatalf("%s: %v", o, err)
		}
		if !known {
			continue
		}
		if p, ok := podOf(object); ok {
			p.of = o
			all = append(all, p)
		}
	}
	return all
}

func podOf(object runtime.Object) (pod, bool) {
	var t corev1.PodTemplateSpec
	switch o := object.(type) {
	case *corev1.Pod:
		return pod{meta: o.ObjectMeta, spec: o.Spec}, true
	case *appsv1.StatefulSet:
		t = o.Spec.Template
	case *appsv1.Deployment:
		t = o.Spec.Template
	case *appsv1.DaemonSet:
		t = o.Spec.Template
	case *batchv1.Job:
		t = o.Spec.Template
	case *batchv1.CronJob:
		t = o.Spec.JobTemplate.Spec.Template
	default:
		return pod{}, false
	}
	return pod{meta: t.ObjectMeta, spec: t.Spec}, true
}

func (p pod) containers() []corev1.Container {
	return append(append([]corev1.Container{}, p.spec.InitContainers...), p.spec.Containers...)
}

// Every object is what Kubernetes reads, to the last field, at the oldest version the
// chart allows and at a new one.
func TestKubernetesReadsEveryField(t *testing.T) {
	for _, version := range []string{"1.30.0", "1.34.0", "1.36.0"} {
		for name, values := range installations(t) {
			t.Run(version+" "+name, func(t *testing.T) {
				r, err := Render(Install{Chart: folder, Values: values, APIs: everyAPI, Kubernetes: version})
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range r.Objects {
					if _, _, err := o.Typed(); err != nil {
						t.Errorf("%s of %s: %v", o, o.Template, err)
					}
				}
			})
		}
	}
	if _, err := Render(Install{Chart: folder, Kubernetes: "1.29.9"}); err == nil {
		t.Error("rendered for a Kubernetes that knows no preStop sleep")
	}
}

func TestEveryPodIsRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	each(t, func(t *testing.T, _ map[string]any, r *Release) {
		all := pods(t, r)
		if len(all) == 0 {
			t.Fatal("no pods")
		}
		for _, p := range all {
			for _, result := range evaluator.EvaluatePod(level, &p.meta, &p.spec) {
				if !result.Allowed {
					t.Errorf("%s: %s: %s", p.of, result.ForbiddenReason, result.ForbiddenDetail)
				}
			}
		}
	})
}

// What the restricted level does not ask for, and a pod of this chart has all the same.
func TestEveryPodHasNoMoreThanItNeeds(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, r *Release) {
		mayTalk := make(map[string]bool) // service accounts with rights
		for _, o := range append(r.Of("RoleBinding"), r.Of("ClusterRoleBinding")...) {
			for _, s := range o.Field("subjects").([]any) {
				mayTalk[s.(map[string]any)["name"].(string)] = true
			}
		}
		for _, p := range pods(t, r) {
			if token := p.spec.AutomountServiceAccountToken; token == nil {
				t.Errorf("%s: does not say whether it has a token", p.of)
			} else if *token != mayTalk[p.spec.ServiceAccountName] {
				t.Errorf("%s: token mounted is %v, and its account %q has rights: %v", p.of, *token, p.spec.ServiceAccountName, mayTalk[p.spec.ServiceAccountName])
			}
			if links := p.spec.EnableServiceLinks; links == nil || *links {
				t.Errorf("%s: has the Services of its namespace in its environment", p.of)
			}
			for _, c := range p.containers() {
				if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
					t.Errorf("%s, %s: writes to its image's file system", p.of, c.Name)
				}
				if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s, %s: asks for no CPU or memory, or has no limit of memory", p.of, c.Name)
				}
				if strings.HasSuffix(c.Image, ":latest") || !strings.ContainsAny(c.Image[strings.LastIndexByte(c.Image, '/')+1:], ":@") {
					t.Errorf("%s, %s: image %s is not one release", p.of, c.Name, c.Image)
				}
				for _, e := range c.Env {
					if e.ValueFrom == nil && strings.Contains(strings.ToUpper(e.Name), "PASSWORD") && !strings.HasSuffix(e.Name, "_FILE") {
						t.Errorf("%s, %s: %s stands in the manifest", p.of, c.Name, e.Name)
					}
				}
			}
		}
	})
}

// Renderings that differ would roll pods, or make secrets anew, at each one.
func TestTwoRenderingsAreTheSame(t *testing.T) {
	each(t, func(t *testing.T, values map[string]any, r *Release) {
		if err := equal(r, render(t, values)); err != nil {
			t.Error(err)
		}
	})
}
