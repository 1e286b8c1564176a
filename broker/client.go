package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/broker/api"
)

const clientsPath = "/api/v1/api-clients"

func clientCommand(out io.Writer) *cobra.Command {
	reach := &adminAPI{}
	c := &cobra.Command{
		Use:   "client",
		Short: "Manage the API clients of a running broker",
		Long: "Manage the API clients of a running broker: who may sign in, and to what.\n\n" +
			"On the broker's own machine its socket in the data directory is used, which only the owner of that directory can open: this is how a fresh\n" +
			"installation gets its first client. From elsewhere, --url and an API client with the scope api_clients:manage.",
	}
	reach.flags(c)
	c.AddCommand(listCommand(reach, out), addCommand(reach, out), rotateCommand(reach, out),
		switchCommand(reach, out, "disable", "Refuse an API client from now on and close its connections"),
		switchCommand(reach, out, "enable", "Let a disabled API client sign in again"),
		deleteCommand(reach, out))
	return c
}

func listCommand(reach *adminAPI, out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List API clients", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := reach.open(); err != nil {
				return err
			}
			var answer struct{ Clients []api.Client }
			if err := reach.call(cmd.Context(), http.MethodGet, clientsPath, nil, &answer); err != nil {
				return err
			}
			return printClients(out, answer.Clients...)
		},
	}
}

func addCommand(reach *adminAPI, out io.Writer) *cobra.Command {
	var n api.NewClient
	var publish, subscribe []string
	var fromInput bool
	c := &cobra.Command{
		Use: "add ID", Short: "Add an API client and print its secret, once", Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			n.ID = args[0]
			if cmd.Flags().Changed("publish") {
				n.Publish = &publish
			}
			if cmd.Flags().Changed("subscribe") {
				n.Subscribe = &subscribe
			}
			if fromInput {
				line, err := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 4<<10)).ReadString('\n')
				if err != nil && !errors.Is(err, io.EOF) {
					return fmt.Errorf("read secret: %w", err)
				}
				if n.Secret = strings.TrimRight(line, "\r\n"); n.Secret == "" {
					return errors.New("read secret: standard input is empty")
				}
			}
			if err := reach.open(); err != nil {
				return err
			}
			if n.Workspace == "" && reach.socket != "" {
				return fmt.Errorf("client add %s: --workspace is missing: over the broker's socket nobody is signed in whose workspace it could be", n.ID)
			}
			return secretCall(cmd, reach, out, clientsPath, n)
		},
	}
	c.Flags().StringVar(&n.Workspace, "workspace", "", "slug of its workspace; needed over the broker's socket, with --url it is by default that of the client signed in")
	c.Flags().StringSliceVar(&publish, "publish", nil, "filters below its inbox it may publish to (default #; \"\" for none)")
	c.Flags().StringSliceVar(&subscribe, "subscribe", nil, "filters it may subscribe to (default #; \"\" for none)")
	c.Flags().StringSliceVar(&n.Scopes, "scope", nil, "scopes of the REST API it has: "+strings.Join(api.Scopes, ", "))
	c.Flags().BoolVar(&fromInput, "secret-stdin", false, "take the secret from standard input instead of making one")
	return c
}

// oneID wants the id of an API client, and says so in its words.
func oneID(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return fmt.Errorf("client %s: name the API client: %s", cmd.Name(), cmd.UseLine())
	case 1:
		return nil
	}
	return fmt.Errorf("client %s: names one API client, has %q: %s", cmd.Name(), args, cmd.UseLine())
}

func rotateCommand(reach *adminAPI, out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "rotate ID", Short: "Give an API client a new secret, print it once, and close what is signed in with the old one", Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reach.open(); err != nil {
				return err
			}
			return secretCall(cmd, reach, out, clientPath(args[0])+"/rotate", nil)
		},
	}
}

func switchCommand(reach *adminAPI, out io.Writer, verb, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: short, Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reach.open(); err != nil {
				return err
			}
			var client api.Client
			if err := reach.call(cmd.Context(), http.MethodPost, clientPath(args[0])+"/"+verb, nil, &client); err != nil {
				return err
			}
			return printClients(out, client)
		},
	}
}

func deleteCommand(reach *adminAPI, out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "delete ID", Short: "Delete an API client, close its connections and end its sessions", Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reach.open(); err != nil {
				return err
			}
			if err := reach.call(cmd.Context(), http.MethodDelete, clientPath(args[0]), nil, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintf(out, "deleted %s\n", args[0])
			return err
		},
	}
}

func clientPath(id string) string { return clientsPath + "/" + url.PathEscape(id) }

// secretCall is a request whose answer may hold a secret, which goes to out alone
// on its line so that a script can take it.
func secretCall(cmd *cobra.Command, reach *adminAPI, out io.Writer, path string, body any) error {
	var answer api.ClientSecret
	if err := reach.call(cmd.Context(), http.MethodPost, path, body, &answer); err != nil {
		return err
	}
	if answer.Secret != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "secret of "+answer.Client.ID+", shown this once:")
		_, err := fmt.Fprintln(out, answer.Secret)
		return err
	}
	return printClients(out, answer.Client)
}

func printClients(out io.Writer, clients ...api.Client) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tWORKSPACE\tSTATE\tPUBLISH\tSUBSCRIBE\tSCOPES")
	for _, c := range clients {
		state := "enabled"
		if c.Disabled {
			state = "disabled"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", c.ID, c.Workspace, state, listed(c.Publish), listed(c.Subscribe), listed(c.Scopes))
	}
	return t.Flush()
}

func listed(s []string) string {
	if len(s) == 0 {
		return "-"
	}
	return strings.Join(s, ",")
}
