// Command postrider watches IMAP inboxes and forwards what arrives, as a service, or from cron or a
// systemd timer.
package main

import (
	"os"

	"postrider/cmd"
)

func main() { os.Exit(cmd.Main()) }
