package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Kill is kill -9 of a container's process: of the named container of a pod
// ("namespace/name"), or of the only one if none is named. The kubelet starts it
// again.
func (l *Lab) Kill(ctx context.Context, name, container string) error {
	pid, err := l.containerPID(ctx, name, container)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill pod %s: pid %d: %w", name, pid, err)
	}
	return nil
}

// Pause stops every process of a container where it stands, its connections open (the
// freezer of its cgroup); Resume lets them go on.
func (l *Lab) Pause(ctx context.Context, name, container string) error {
	return l.freeze(ctx, "pause", name, container)
}

// Resume undoes Pause.
func (l *Lab) Resume(ctx context.Context, name, container string) error {
	return l.freeze(ctx, "resume", name, container)
}

func (l *Lab) freeze(ctx context.Context, operation, name, container string) error {
	socket, id, err := l.container(ctx, name, container)
	if err != nil {
		return err
	}
	_, err = command(ctx, nil, "/usr/bin/ctr", "--address", socket, "--namespace", "k8s.io", "tasks", operation, id)
	return err
}

// podStatus is the part of a pod that says what runs of it, and where.
type podStatus struct {
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		ContainerStatuses []containerStatus `json:"containerStatuses"`
	} `json:"status"`
}

type containerStatus struct {
	Name        string `json:"name"`
	ContainerID string `json:"containerID"` // containerd://…
}

// containerPID finds the process of a container on its node.
func (l *Lab) containerPID(ctx context.Context, name, container string) (int, error) {
	socket, id, err := l.container(ctx, name, container)
	if err != nil {
		return 0, err
	}
	tasks, err := command(ctx, nil, "/usr/bin/ctr", "--address", socket, "--namespace", "k8s.io", "tasks", "list")
	if err != nil {
		return 0, err
	}
	return taskPID(tasks, id)
}

// container finds a container: the socket of its node's containerd, and its id there.
func (l *Lab) container(ctx context.Context, name, container string) (socket, id string, err error) {
	up, err := l.mustBeUp()
	if err != nil {
		return "", "", err
	}
	namespace, pod, is := strings.Cut(name, "/")
	if !is {
		return "", "", fmt.Errorf("%q must be namespace/pod", name)
	}
	text, err := l.kubectl(ctx, nil, "-n", namespace, "get", "pod", pod, "-o", "json")
	if err != nil {
		return "", "", err
	}
	var s podStatus
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return "", "", fmt.Errorf("read pod %s: %w", name, err)
	}
	c, err := s.container(container)
	if err != nil {
		return "", "", fmt.Errorf("pod %s: %w", name, err)
	}
	at := slices.IndexFunc(up.nodes(), func(n Node) bool { return n.Name == s.Spec.NodeName })
	if at < 0 {
		return "", "", fmt.Errorf("pod %s is on no node of the lab (%q)", name, s.Spec.NodeName)
	}
	return up.nodes()[at].Containerd, strings.TrimPrefix(c.ContainerID, "containerd://"), nil
}

// container finds one by name, or the only one.
func (s podStatus) container(name string) (containerStatus, error) {
	var names []string
	for _, c := range s.Status.ContainerStatuses {
		if c.Name == name || name == "" && len(s.Status.ContainerStatuses) == 1 {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return containerStatus{}, fmt.Errorf("container %q: it has %q", name, names)
}

// taskPID finds a container's process in what `ctr tasks list` prints.
func taskPID(tasks, id string) (int, error) {
	for _, line := range strings.Split(tasks, "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[0] == id && f[2] == "RUNNING" {
			return strconv.Atoi(f[1])
		}
	}
	return 0, fmt.Errorf("container %s does not run", id)
}
