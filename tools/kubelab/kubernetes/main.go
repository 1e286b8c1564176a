package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	_ "time/tzdata" // CronJobs name time zones; the machine may have none

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlerrors "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"maestrohub.io/uns/tools/kubelab/kubernetes/balancer"
	"maestrohub.io/uns/tools/kubelab/kubernetes/policy"
	"maestrohub.io/uns/tools/kubelab/kubernetes/volume"
)

// programs are what this binary can be; each finds its own arguments in os.Args[1:]
// and returns the exit code.
var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	"kubectl": func() int {
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlerrors.CheckErr(err) // prints and exits as kubectl does
		}
		return 0
	},
	"policy":   func() int { return serve(policy.Run) },
	"volume":   func() int { return serve(volume.Run) },
	"balancer": func() int { return serve(balancer.Run) },
}

func main() {
	if len(os.Args) > 1 && programs[filepath.Base(os.Args[0])] == nil {
		os.Args = os.Args[1:]
	}
	program := programs[filepath.Base(os.Args[0])]
	if program == nil {
		fmt.Fprintf(os.Stderr, "usage: kubernetes %s [flags]\n", strings.Join(slices.Sorted(maps.Keys(programs)), "|"))
		os.Exit(2)
	}
	os.Exit(program())
}

// serve runs one of the lab's own programs until SIGTERM or SIGINT.
func serve(run func(ctx context.Context, args []string) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		return 1
	}
	return 0
}
