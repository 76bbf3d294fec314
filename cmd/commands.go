package cmd

import "github.com/spf13/cobra"

func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.runCommand(),
		a.migrateCommand(),
		a.inboxCommand(),
		a.taskCommand(),
		a.contactCommand(),
		a.routeCommand(),
		a.statusCommand(),
		a.auditCommand(),
		a.srsCommand(),
		a.checkCommand(),
		a.demoCommand(),
		a.versionCommand(),
	}
}
