package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/replica"
)

func checkCommand(out io.Writer) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "check-config [FILE]",
		Short: "Check a configuration and the files it names, without starting anything",
		Long:  "Check a configuration and the files it names (model, clients, certificates), without starting anything. Everything that is wrong is listed; exit status 0 if nothing is.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if file != "" {
					return errors.New("check-config: the file is given twice, as argument and with --config")
				}
				file = args[0]
			}
			if file == "" {
				return errors.New("check-config: name the configuration file")
			}
			c, err := config.Load(file)
			if err != nil {
				return err
			}
			if err := replica.CheckFiles(c); err != nil {
				return err
			}
			if err := replica.CheckAdminSocket(c.DataDir); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", err)
			}
			_, err = fmt.Fprintf(out, "%s is valid\n", file)
			return err
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration file")
	return c
}

func configCommand(out io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "About the configuration"}
	c.AddCommand(&cobra.Command{
		Use: "reference", Short: "Print every setting, its default, range and meaning, as Markdown", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(out, config.Reference())
			return err
		},
	})
	return c
}
