package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/srs"
	"postrider/internal/text"
)

func (a *app) srsCommand() *cobra.Command {
	return group("srs", "Decode rewritten senders (forward.envelope_from: srs)", a.srsDecodeCommand())
}

func (a *app) srsDecodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "decode ADDRESS",
		Short: "Show whose address was rewritten to an SRS address",
		Long: `decode shows the address that a bounce to an SRS address is for, when the
address was made, and whether it is authentic: at srs.domain, signed with a
secret of srs.secret, and not older than srs.max_age. The exit code is 0 then, 1
when it is not authentic, and 2 when it is not an SRS address.

    postrider srs decode SRS0=vmyz=2W=author.example=alice@srs.firm.example
` + exitHelp,
		Args: takes(1, "one ADDRESS"),
		RunE: func(c *cobra.Command, args []string) error { return a.srsDecode(c.Context(), args[0]) },
	}
}

func (a *app) srsDecode(ctx context.Context, address string) error {
	cfg, err := a.loadConfig(ctx)
	if err != nil {
		return err
	}
	r, err := rewriter(cfg)
	if err != nil {
		return usage(err)
	}
	address = strings.TrimSuffix(strings.TrimPrefix(address, "<"), ">")
	d, err := r.Decode(address)
	if err != nil {
		return usage(errors.New(text.Error(err)))
	}
	facts := decoded(d, len(cfg.SRS.Secrets()))
	if !r.Owns(address) {
		facts += fmt.Sprintf("%-10s NOT OURS: the address is not at %s (srs.domain)\n", "domain", cfg.SRS.Domain)
	}
	a.print("%s", facts)
	if d.Secret == 0 || d.Expired || !r.Owns(address) {
		return &exitError{code: exitFailed}
	}
	return nil
}

// decoded has one line for each fact.
func decoded(d srs.Decoded, secrets int) string {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", what, text.Line(fmt.Sprintf(format, args...)))
	}
	line("bounces to", "%s", d.Address)
	if d.Original != "" && d.Original != d.Address {
		line("original", "%s, as the server there has it", d.Original)
	}
	switch {
	case d.Made.IsZero(): // only the server there knows
	case d.Expired:
		line("made", "%s, EXPIRED: it was valid until %s (srs.max_age)",
			d.Made.Format(time.DateOnly), d.Until.Format(time.DateOnly))
	default:
		line("made", "%s, valid until %s", d.Made.Format(time.DateOnly), d.Until.Format(time.DateOnly))
	}
	if d.Secret == 0 {
		line("signed", "NOT with a secret of srs.secret; the address may be forged")
	} else {
		line("signed", "with secret %d of %d", d.Secret, secrets)
	}
	return b.String()
}
