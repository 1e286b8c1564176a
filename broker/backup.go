package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"maestrohub.io/uns/broker/backup"
	"maestrohub.io/uns/broker/config"
)

// latest names the newest backup of a folder.
const latest = "latest"

func backupCommand(out io.Writer) *cobra.Command {
	reach := &natsReach{out: out}
	c := &cobra.Command{
		Use:   "backup",
		Short: "Save, check and restore what the replicas keep in NATS",
		Long: "Save, check and restore what the replicas keep in NATS: sessions, cursors, session logs, wills, retained messages, API clients and the format floor.\n" +
			"Values are not among it: they are in the historian.\n\n" +
			"A backup is a folder that the nats command line can restore as well, and one that it has made can be restored here.",
	}
	reach.flags(c)
	c.AddCommand(saveCommand(reach), backupCheckCommand(out), restoreCommand(reach))
	return c
}

func saveCommand(reach *natsReach) *cobra.Command {
	o := backup.SaveOptions{Release: release()}
	var root string
	var keep int
	c := &cobra.Command{
		Use:   "save [DIR]",
		Short: "Take a backup; the replicas may serve meanwhile",
		Long: "Take a backup into DIR, which is made, or with --root into a new folder there that is named for the time. Cursors are saved before the logs they point into.\n" +
			"The replicas may serve meanwhile.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && root == "":
				o.Dir = args[0]
			case len(args) == 0 && root != "":
				o.Dir = filepath.Join(root, "broker-backup-"+time.Now().UTC().Format("20060102T150405Z"))
			default:
				return errors.New("backup save: name the folder to make, or with --root the folder to make it in")
			}
			if keep < 0 || keep > 0 && root == "" {
				return fmt.Errorf("backup save: --keep %d: wants --root and at least 1, or 0 for all", keep)
			}
			return reach.with(cmd.Context(), func(c *backup.Client) error {
				m, err := c.Save(cmd.Context(), o)
				if err != nil {
					return err
				}
				if keep > 0 {
					deleted, err := backup.Prune(root, keep)
					for _, dir := range deleted {
						reach.say("deleted the old backup %s", dir)
					}
					if err != nil {
						return fmt.Errorf("delete old backups: %w", err)
					}
				}
				reach.say("%s: %d streams in %v", o.Dir, len(m.Streams), m.Ended.Sub(m.Begun).Round(time.Millisecond))
				return nil
			})
		},
	}
	c.Flags().StringVar(&root, "root", "", "make the backup in a folder of its own below this one")
	c.Flags().IntVar(&keep, "keep", 0, "with --root: delete all but so many of the newest backups afterwards; 0 keeps all")
	c.Flags().BoolVar(&o.Logs, "logs", true, "save the session logs as well; without them, sessions that were away miss what was kept for them")
	return c
}

func backupCheckCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "check DIR", Short: "Read a backup from end to end; exit status 0 if all of it is there, unchanged", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := chosen(args[0])
			if err != nil {
				return err
			}
			r, err := backup.Check(dir)
			if err != nil {
				return err
			}
			for _, s := range r.Streams {
				fmt.Fprintf(out, "%s: %d messages, sequences %d to %d, %d bytes\n", s.Name, s.Messages, s.First, s.Last, s.Bytes)
			}
			if r.Manifest == nil {
				fmt.Fprintf(out, "%s has no manifest (the nats command line made it): whether it has changed since is not known\n", dir)
			} else {
				fmt.Fprintf(out, "%s was taken at %s by release %s, format floor %d\n", dir, r.Manifest.Begun.Format(time.RFC3339), r.Manifest.Release, r.Manifest.Floor)
			}
			if len(r.Missing) > 0 {
				return fmt.Errorf("the backup %s is whole in itself, but a broker restored from it would lack:\n  %s", dir, strings.Join(r.Missing, "\n  "))
			}
			_, err = fmt.Fprintf(out, "%s is whole\n", dir)
			return err
		},
	}
}

func restoreCommand(reach *natsReach) *cobra.Command {
	var o backup.RestoreOptions
	c := &cobra.Command{
		Use:   "restore DIR",
		Short: "Bring a backup back, while no replica runs",
		Long: "Bring the backup DIR back (with DIR/" + latest + " the newest below DIR), while no replica runs: stop them first, start them afterwards. It is refused while one is alive,\n" +
			"where a stream of the backup exists (unless --replace), where the backup lacks what a broker needs (unless --partial) and where this release cannot read it.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Dir, err = chosen(args[0]); err != nil {
				return err
			}
			return reach.with(cmd.Context(), func(c *backup.Client) error {
				if err := c.Restore(cmd.Context(), o); err != nil {
					return err
				}
				reach.say("%s is restored: start the replicas again, of the release that took it or a later one (kubectl scale statefulset <release>-uns --replicas=<n>)", o.Dir)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&o.Replace, "replace", false, "delete the streams of the backup that exist: what replicas have made since the loss is lost")
	c.Flags().BoolVar(&o.Partial, "partial", false, "restore a backup that lacks what a broker needs")
	c.Flags().BoolVar(&o.Logs, "logs", true, "restore the session logs as well")
	c.Flags().IntVar(&o.Copies, "copies", 0, "copies of each stream: 1, 3 or 5; 0 as it was when saved")
	c.Flags().DurationVar(&o.Wait, "wait", 30*time.Second, "how long the entries of replicas that were killed may take to expire (memberTTL)")
	return c
}

// chosen resolves a folder that ends in "latest".
func chosen(dir string) (string, error) {
	if filepath.Base(dir) == latest {
		return backup.Latest(filepath.Dir(dir))
	}
	return dir, nil
}

// natsReach is how the NATS servers are reached: as a replica does, by its
// configuration file, or by flags named as the nats command line has them.
type natsReach struct {
	out                       io.Writer
	file                      string
	servers                   []string
	user, password            string
	passwordFile              string
	caFile, certFile, keyFile string
	idle                      time.Duration
}

func (r *natsReach) flags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&r.file, "config", "", "configuration file of a replica, whose modules.uns.nats says where NATS is; flags below win over it")
	f.StringSliceVar(&r.servers, "server", nil, "NATS servers: nats://host:port")
	f.StringVar(&r.user, "user", "", "user of the broker's account")
	f.StringVar(&r.passwordFile, "password-file", "", "file with its password (or the environment variable NATS_PASSWORD)")
	f.StringVar(&r.caFile, "tlsca", "", "PEM certificates that sign the servers'")
	f.StringVar(&r.certFile, "tlscert", "", "PEM client certificate")
	f.StringVar(&r.keyFile, "tlskey", "", "PEM private key of it")
	f.DurationVar(&r.idle, "timeout", 30*time.Second, "how long NATS may send nothing, or not be reached, before it is given up")
}

func (r *natsReach) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// resolve fills in from the file what no flag says.
func (r *natsReach) resolve() error {
	if r.file != "" {
		c, err := config.Load(r.file)
		if err != nil {
			return err
		}
		if len(r.servers) == 0 {
			r.servers = c.NATS.Servers
		}
		if r.user == "" {
			r.user, r.password = c.NATS.User, c.NATS.Password.Reveal()
		}
		if r.caFile == "" && r.certFile == "" {
			r.caFile, r.certFile, r.keyFile = c.NATS.TLS.CAFile, c.NATS.TLS.CertFile, c.NATS.TLS.KeyFile
		}
		if len(r.servers) == 0 {
			return fmt.Errorf("%s names no modules.uns.nats.servers: a single node keeps its sessions in memory, and there is nothing to save", r.file)
		}
	}
	if len(r.servers) == 0 {
		return errors.New("name the configuration file of a replica with --config, or the NATS servers with --server")
	}
	if r.passwordFile != "" {
		text, err := os.ReadFile(r.passwordFile)
		if err != nil {
			return fmt.Errorf("read the password: %w", err)
		}
		r.password = strings.TrimRight(string(text), "\r\n")
	} else if p := os.Getenv("NATS_PASSWORD"); p != "" && r.password == "" {
		r.password = p
	}
	return nil
}

// with connects, does something and disconnects.
func (r *natsReach) with(ctx context.Context, do func(*backup.Client) error) error {
	if err := r.resolve(); err != nil {
		return err
	}
	options := []nats.Option{
		nats.Name("uns-broker backup"), nats.Timeout(r.idle), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.ReconnectBufSize(-1),
	}
	if r.user != "" {
		options = append(options, nats.UserInfo(r.user, r.password))
	}
	t, err := r.tls()
	if err != nil {
		return err
	}
	if t != nil {
		options = append(options, nats.Secure(t))
	}
	nc, err := r.connect(ctx, options)
	if err != nil {
		return fmt.Errorf("connect to NATS at %s as user %q: %w", strings.Join(r.servers, ", "), r.user, err)
	}
	defer nc.Close()
	return do(backup.NewClient(nc, r.idle, r.say))
}

// connect tries for as long as NATS may be silent: a pod that has just started is let
// through by the network's policies only a little later. Who is refused for the password
// tries no second time.
func (r *natsReach) connect(ctx context.Context, options []nats.Option) (*nats.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, r.idle)
	defer cancel()
	for {
		nc, err := nats.Connect(strings.Join(r.servers, ","), options...)
		if err == nil || errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return nc, err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (r *natsReach) tls() (*tls.Config, error) {
	if r.caFile == "" && r.certFile == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.caFile != "" {
		pem, err := os.ReadFile(r.caFile)
		if err != nil {
			return nil, fmt.Errorf("read the servers' authority: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the servers' authority: %s holds no certificate", r.caFile)
		}
	}
	if r.certFile != "" {
		pair, err := tls.LoadX509KeyPair(r.certFile, r.keyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
