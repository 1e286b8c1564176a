package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/broker/secrets"
)

// envPlan is where the chart's Job has its plan: in its own specification, so that it needs no object beside it.
const envPlan = "SECRETS_PLAN"

// secretsRun is what the commands of secrets have in common.
type secretsRun struct {
	plan, server string
	timeout      time.Duration
	settle       time.Duration
	out          io.Writer
}

func secretsCommand(out io.Writer) *cobra.Command {
	s := &secretsRun{out: out}
	root := &cobra.Command{
		Use:   "secrets",
		Short: "Certificates and passwords of a deployment on Kubernetes",
		Long: "Makes the certificates and passwords of a deployment on Kubernetes, once, and keeps them. The chart runs it before each installation and upgrade.\n" +
			"The plan says which Secrets there are; it is a file, or the environment's " + envPlan + ".",
	}
	f := root.PersistentFlags()
	f.StringVar(&s.plan, "plan", "", "file with the plan (default: $"+envPlan+")")
	f.StringVar(&s.server, "server", "", "Kubernetes API to use without signing in, such as kubectl proxy's, http://127.0.0.1:8001 (default: that of the cluster this runs in)")
	f.DurationVar(&s.timeout, "timeout", 8*time.Minute, "longest time in all")
	f.DurationVar(&s.settle, "settle", 2*time.Minute, "wait between renewed passwords and the accounts of the servers, until every pod has the new ones")
	var labels map[string]string
	namespace := &cobra.Command{
		Use:   "namespace NAME",
		Short: "Create the namespace unless it is there",
		Long:  "Create the namespace unless it is there. A hook of Helm cannot: it would delete the one that is there first.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return s.namespace(cmd.Context(), names[0], labels)
		},
	}
	namespace.Flags().StringToStringVar(&labels, "labels", nil, "labels of a created one, as key=value,key=value")
	root.AddCommand(
		namespace,
		&cobra.Command{
			Use:   "ensure",
			Short: "Make what is missing and check what is there",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return s.run(cmd.Context(), nil)
			},
		},
		&cobra.Command{
			Use:   "renew THING...",
			Short: "Make certificates or passwords anew, now; and what ensure does",
			Long: "Make certificates or passwords of the plan anew, now; and what ensure does. A THING is the name that the plan gives it, as \"mesh certificate\".\n" +
				"Only what this program made is renewed. With the chart, secrets.renew does the same and is remembered.",
			Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, things []string) error {
				return s.run(cmd.Context(), things)
			},
		},
	)
	return root
}

func (s *secretsRun) run(ctx context.Context, renew []string) error {
	text := []byte(os.Getenv(envPlan))
	if s.plan != "" {
		var err error
		if text, err = os.ReadFile(s.plan); err != nil {
			return fmt.Errorf("read plan: %w", err)
		}
	}
	if strings.TrimSpace(string(text)) == "" {
		return fmt.Errorf("secrets: name the plan with --plan or in $%s", envPlan)
	}
	plan, err := secrets.ParsePlan(text)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	for _, thing := range renew {
		if err := plan.RenewNow(thing, now); err != nil {
			return err
		}
	}
	store, err := s.kubernetes()
	if err != nil {
		return err
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	return secrets.Ensure(ctx, store, plan, s.settle, func(line string) { fmt.Fprintln(s.out, line) })
}

func (s *secretsRun) namespace(ctx context.Context, name string, labels map[string]string) error {
	kubernetes, err := s.kubernetes()
	if err != nil {
		return err
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	created, err := kubernetes.Namespace(ctx, name, labels)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	what := "is there"
	if created {
		what = "created"
	}
	_, err = fmt.Fprintf(s.out, "namespace %s: %s\n", name, what)
	return err
}

func (s *secretsRun) kubernetes() (*secrets.Kubernetes, error) {
	if s.server == "" {
		return secrets.InCluster()
	}
	return &secrets.Kubernetes{URL: strings.TrimSuffix(s.server, "/"), Client: &http.Client{}}, nil
}

func (s *secretsRun) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("--timeout %v is over", s.timeout))
}
