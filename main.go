// Command postrider watches IMAP inboxes and forwards what arrives, as a service or from cron.
package main

import (
	"os"

	"postrider/cmd"
)

func main() { os.Exit(cmd.Main()) }
