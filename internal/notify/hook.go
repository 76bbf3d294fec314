package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"postrider/internal/text"
)

// passedOn is all of the environment that the hook gets: what programs need to run, and none of our secrets, whatever
// their variables are called.
var passedOn = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ", "TMPDIR",
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", // Windows
}

const (
	maxOutput = 8 << 10 // octets of the hook's output that are logged
	// What the hook has started and left behind may hold its output open for so long after its end.
	waitDelay = 2 * time.Second
)

// runHook gives the digest to the program as JSON on standard input. Exit status 0 is that it was told. What it says is
// logged, and not in the error, which is kept in the database: it may tell more than it should.
func (n *Notifier) runHook(ctx context.Context, d Digest) error {
	in, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("write the digest as JSON: %w", err)
	}
	program := n.Config.Hook[0]
	cmd := exec.CommandContext(ctx, program, n.Config.Hook[1:]...)
	out := &head{limit: maxOutput}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(in, '\n')), out, out
	cmd.Env = []string{} // not nil, which is all of ours
	for _, name := range passedOn {
		if value, ok := n.Env(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.WaitDelay = waitDelay
	inGroup(cmd)
	err = cmd.Run()
	said := text.Line(out.String())
	switch {
	case errors.Is(err, exec.ErrWaitDelay), err == nil:
		n.Log.Info("the hook has run", "hook", program, "output", said)
		return nil
	case cmd.ProcessState == nil:
		return fmt.Errorf("the hook %s cannot be run: %w; correct the key hook, or make the file executable", program, err)
	}
	n.Log.Warn("the hook failed", "hook", program, "output", said)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the hook %s did not end within %s and was killed; what it said is in the log", program, maxDelivery)
	}
	return fmt.Errorf("the hook %s failed: %w; what it said is in the log", program, err)
}

// head keeps the beginning of what is written.
type head struct {
	strings.Builder
	limit int
}

func (h *head) Write(p []byte) (int, error) {
	h.Builder.Write(p[:min(len(p), h.limit-h.Len())])
	return len(p), nil
}
