package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"maestrohub.io/uns/tools/kubelab/machine"
	"maestrohub.io/uns/tools/kubelab/registry"
)

// enterCommand becomes another program in a node's network and cgroup. Not `ip netns
// exec`: that mounts /sys anew, and the cgroups would be gone.
func enterCommand() *cobra.Command {
	return &cobra.Command{Use: "enter NAMESPACE CGROUP -- PROGRAM ARGS…", Hidden: true, Args: cobra.MinimumNArgs(3),
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // needs no repository
		RunE: func(_ *cobra.Command, args []string) error {
			// The namespace is the thread's; exec makes this thread the program.
			runtime.LockOSThread()
			if err := machine.Cgroup(args[1]).Enter(); err != nil {
				return err
			}
			namespace, err := os.Open(args[0])
			if err != nil {
				return err
			}
			if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter network namespace %s: %w", args[0], err)
			}
			program, err := lookPath(args[2])
			if err != nil {
				return err
			}
			return syscall.Exec(program, args[2:], os.Environ())
		}}
}

// serveImagesCommand is the lab's registry.
func serveImagesCommand() *cobra.Command {
	return &cobra.Command{Use: "serve-images ADDRESS FOLDER", Hidden: true, Args: cobra.ExactArgs(2),
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			return registry.Serve(cmd.Context(), args[0], args[1])
		}}
}
