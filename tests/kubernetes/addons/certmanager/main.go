// Command certmanager is the part of cert-manager that makes and renews certificates,
// for issuers that sign themselves and those with an authority in a Secret: its own
// controllers, on the cluster of KUBECONFIG, until SIGTERM. Its definitions must be
// there. What is not in it: ACME, Vault, the webhook that checks what is written.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	controllers "github.com/cert-manager/cert-manager/pkg/controller"

	// Each registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	// What cert-manager's own command sets by default.
	factory, err := controllers.NewContextFactory(ctx, controllers.ContextOptions{
		Kubeconfig: os.Getenv("KUBECONFIG"), KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		IssuerOptions: controllers.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controllers.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour, CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	ended := make(chan error, len(controllers.Known()))
	for name, make := range controllers.Known() {
		c, err := make(factory)
		if err != nil {
			return fmt.Errorf("make controller %s: %w", name, err)
		}
		all.Go(func() {
			if err := c.Run(5, ctx); err != nil {
				ended <- fmt.Errorf("controller %s: %w", name, err)
			}
		})
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		all.Wait()
		return nil
	}
}
