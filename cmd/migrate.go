package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"postrider/internal/db"
)

func (a *app) migrateCommand() *cobra.Command {
	var status bool
	c := &cobra.Command{
		Use:   "migrate [--status]",
		Short: "Create or upgrade the database schema",
		Long: `migrate creates the schema, or brings an older one to the version that this
binary needs. It is safe to run from several hosts at once, and does nothing
when there is nothing to do. An SQLite file migrates itself; MySQL and MariaDB
need this command once after each upgrade.

If an SQLite file was emptied, every other command that needs the database
fails. If you have a backup, restore it. Otherwise migrate starts in that file
with an empty registry.
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.migrate(c.Context(), status) },
	}
	c.Flags().BoolVar(&status, "status", false,
		"only print the version of the schema and the version needed; exit 1 if they differ")
	return c
}

func (a *app) migrate(ctx context.Context, statusOnly bool) error {
	cfg, err := a.loadConfig(ctx)
	if err != nil {
		return err
	}
	where := dbConfig(cfg)
	where.Existing = statusOnly
	d, err := db.OpenAnySchema(ctx, where)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if !statusOnly {
		applied, err := d.Migrate(ctx)
		if err != nil {
			return err
		}
		for _, m := range applied {
			a.tell("applied %s\n", m.Name)
		}
	}
	current, latest, err := d.Version(ctx)
	switch {
	case err != nil:
	case current != latest:
		return d.SchemaError(current, latest)
	case statusOnly || isTerminal(a.out):
		a.print("the schema is at version %d, which is the one needed\n", current)
	}
	return err
}
