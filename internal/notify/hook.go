package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"postrider/internal/program"
	"postrider/internal/secret"
	"postrider/internal/text"
)

// hookEnv lists the only environment variables that the hook gets. Programs need them to run, and
// none holds a secret.
var hookEnv = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ", "TMPDIR",
	// Windows
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
	"PROGRAMDATA",
}

const maxOutput = 8 << 10 // octets of the hook's output that are logged

// Program is the path of a hook: its own, or the one that PATH has for its name. The error says why
// it cannot be run, or that others can change it and so what this user runs.
func Program(hook string) (path string, err error) {
	path, err = exec.LookPath(hook)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("cannot be run: %w; write ./%s for a file beside the configuration", err, hook)
	}
	if err != nil {
		return "", fmt.Errorf("cannot be run: %w; correct the key hook, or make the file executable", err)
	}
	info, err := os.Stat(path)
	if err == nil {
		err = secret.CheckWriters(path, info, "run programs as this user")
	}
	if err != nil {
		return "", fmt.Errorf("cannot be run: %w", err)
	}
	return path, nil
}

// runHook runs the program with the digest as JSON on standard input. Exit status 0 is success. The
// program's output is logged, but is not in the error: the database stores the error, and the
// output may hold secrets. Processes that the program started are killed when it has ended.
func (n *Notifier) runHook(ctx context.Context, d Digest) error {
	in, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("write the digest as JSON: %w", err)
	}
	name := n.Config.Hook[0]
	path, err := Program(name)
	if err != nil {
		return fmt.Errorf("the hook %s %w", name, err)
	}
	cmd := exec.CommandContext(ctx, path, n.Config.Hook[1:]...)
	out := &program.Head{Limit: maxOutput}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(in, '\n')), out, out
	cmd.Env = []string{} // nil would pass on our whole environment
	for _, name := range hookEnv {
		if value, ok := n.Env(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	err = program.Run(cmd)
	output := text.Line(out.String())
	switch {
	case err == nil:
		n.Log.Info("the hook has run", "hook", name, "output", output)
		return nil
	case cmd.ProcessState == nil:
		return fmt.Errorf("the hook %s cannot be run: %w", name, err)
	}
	where := ""
	if output != "" {
		n.Log.Warn("the hook failed", "hook", name, "output", output)
		where = "; its output is in the log"
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the hook %s did not end in time and was killed%s", name, where)
	}
	return fmt.Errorf("the hook %s failed: %w%s", name, err, where)
}
