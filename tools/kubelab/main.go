package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/tools/kubelab/images"
	"maestrohub.io/uns/tools/kubelab/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := command(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kubelab:", err)
		os.Exit(code(err))
	}
}

// code is 3 where the machine can run no nodes, so that a script tells that from a
// lab that broke.
func code(err error) int {
	if cannot := (*lab.Cannot)(nil); errors.As(err, &cannot) {
		return 3
	}
	return 1
}

// command is the whole command line: results go to out, progress to progress.
func command(out, progress io.Writer) *cobra.Command {
	o := lab.Options{Say: func(format string, args ...any) { fmt.Fprintf(progress, "kubelab: "+format+"\n", args...) }}
	root := &cobra.Command{
		Use: "kubelab", Short: "A real Kubernetes on this machine",
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			o.Root, err = repository(o.Root)
			return err
		},
	}
	root.SetOut(out)
	root.SetErr(progress)
	root.PersistentFlags().StringVar(&o.Root, "repository", "", "folder of the repository; found from the working directory")
	root.PersistentFlags().StringVar(&o.Dir, "dir", lab.DefaultDir, "folder the lab is kept in while it is up")
	root.PersistentFlags().StringVar(&o.Cache, "cache", "", "folder for what is built; empty: .cache/kubelab of the repository")
	root.AddCommand(buildCommand(&o), upCommand(&o), downCommand(&o), statusCommand(&o, out), imagesCommand(&o, out), pullCommand(&o), envCommand(&o, out),
		cutCommand(&o), healCommand(&o), killCommand(&o), pauseCommand(&o, true), pauseCommand(&o, false), enterCommand(), serveImagesCommand())
	return root
}

// repository finds the folder with the product's go.mod, from here upwards.
func repository(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; at = filepath.Dir(at) {
		if content, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil && strings.HasPrefix(string(content), "module maestrohub.io/uns\n") {
			return at, nil
		}
		if at == "/" {
			return "", fmt.Errorf("the working directory is not in the repository: give it with --repository")
		}
	}
}

func buildCommand(o *lab.Options) *cobra.Command {
	return &cobra.Command{Use: "build", Short: "Build what the lab is made of, for an up in half a minute", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			_, err = l.Build(cmd.Context())
			return err
		}}
}

func upCommand(o *lab.Options) *cobra.Command {
	c := &cobra.Command{Use: "up", Short: "Bring the lab up; one that is up is left as it is", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			return l.Up(cmd.Context())
		}}
	c.Flags().IntVar(&o.Nodes, "nodes", 1, fmt.Sprintf("number of nodes, 1 to %d", lab.MaxNodes))
	return c
}

func downCommand(o *lab.Options) *cobra.Command {
	return &cobra.Command{Use: "down", Short: "Take the lab down, in whatever state it is; what was built stays", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			return l.Down(cmd.Context())
		}}
}

func statusCommand(o *lab.Options, out io.Writer) *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Say what runs; exit 0 only if the lab is up whole", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			s, err := l.Status()
			if err != nil {
				return err
			}
			if s.Nodes == 0 {
				return fmt.Errorf("no lab is up in %s", l.Dir)
			}
			fmt.Fprintf(out, "nodes    %d\nrunning  %s\n", s.Nodes, strings.Join(s.Running, " "))
			if !s.Whole() {
				return fmt.Errorf("the lab is half up; ended: %s; `kubelab up` makes it anew", strings.Join(s.Ended, " "))
			}
			fmt.Fprintf(out, "API      %s\nregistry %s\n", l.Server(), l.Registry())
			return nil
		}}
}

func imagesCommand(o *lab.Options, out io.Writer) *cobra.Command {
	var registry, tag, release string
	var only, plain bool
	c := &cobra.Command{Use: "images", Short: "Build the images and push them to the lab, or to a registry of yours; prints their names", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			build := images.Options{Root: l.Root, Cache: l.Cache, BrokerTag: tag, Release: release, Say: l.Say}
			set := images.Set{}
			if only {
				broker, err := images.Broker(cmd.Context(), build)
				if err != nil {
					return err
				}
				set = append(set, broker)
			} else if set, err = images.Build(cmd.Context(), build); err != nil {
				return err
			}
			if registry == "" {
				registry, plain = l.Registry(), true
			}
			if host, is := strings.CutPrefix(registry, "http://"); is {
				registry, plain = host, true
			}
			if err := set.Push(cmd.Context(), registry, plain); err != nil {
				return err
			}
			for _, name := range set.References(registry) {
				fmt.Fprintln(out, name)
			}
			return nil
		}}
	c.Flags().StringVar(&registry, "registry", "", "host:port or host/path to push to, http:// before it for one without TLS; empty: the lab's")
	c.Flags().BoolVar(&only, "broker-only", false, "build and push the broker's image alone")
	c.Flags().StringVar(&tag, "broker-tag", "", "tag of the broker's image beside latest")
	c.Flags().StringVar(&release, "release", "", "release number built into the broker")
	return c
}

func pullCommand(o *lab.Options) *cobra.Command {
	return &cobra.Command{Use: "pull-from HOST:PORT", Short: "Have nodes pull what is named after a registry from it, over HTTP, instead of the lab's", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			return l.PullFrom(args[0])
		}}
}

func envCommand(o *lab.Options, out io.Writer) *cobra.Command {
	return &cobra.Command{Use: "env", Short: "Print what a shell needs to use the lab: eval \"$(kubelab env)\"", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "export KUBECONFIG=%s\nexport PATH=%s:\"$PATH\"\n", l.Kubeconfig(), l.Bin())
			return nil
		}}
}

const ends = `An end is a pod (namespace/name), an address, a network such as 10.0.0.0/8, or all.
A node (node2) alone has its cable taken out.`

func cutCommand(o *lab.Options) *cobra.Command {
	return &cobra.Command{Use: "cut END END | NODE", Short: "Drop everything between two ends", Long: ends, Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return l.CutNode(cmd.Context(), args[0])
			}
			return l.Cut(cmd.Context(), args[0], args[1])
		}}
}

func healCommand(o *lab.Options) *cobra.Command {
	return &cobra.Command{Use: "heal END END | NODE", Short: "Undo a cut of the same ends", Long: ends, Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return l.HealNode(cmd.Context(), args[0])
			}
			return l.Heal(cmd.Context(), args[0], args[1])
		}}
}

func killCommand(o *lab.Options) *cobra.Command {
	return &cobra.Command{Use: "kill NAMESPACE/POD [CONTAINER]", Short: "Kill a container's process (SIGKILL)", Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			return l.Kill(cmd.Context(), args[0], strings.Join(args[1:], ""))
		}}
}

func pauseCommand(o *lab.Options, pause bool) *cobra.Command {
	c := &cobra.Command{Use: "resume NAMESPACE/POD [CONTAINER]", Short: "Undo pause", Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lab.New(*o)
			if err != nil {
				return err
			}
			if pause {
				return l.Pause(cmd.Context(), args[0], strings.Join(args[1:], ""))
			}
			return l.Resume(cmd.Context(), args[0], strings.Join(args[1:], ""))
		}}
	if pause {
		c.Use, c.Short = "pause NAMESPACE/POD [CONTAINER]", "Stop every process of a container where it stands"
	}
	return c
}

// lookPath finds a program in PATH, or where root's are.
func lookPath(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", name))
}
