package secret

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"postrider/internal/program"
	"postrider/internal/text"
)

const commandPrefix = "command:"

// How long a command may take, and how much of its standard error is read and shown.
const (
	patience     = 30 * time.Second
	maxComplaint = 8 << 10 // octets
	maxShown     = 300     // characters
)

// IsCommand reports whether ref is command:PROGRAM ARGUMENT....
func IsCommand(ref string) bool { return strings.HasPrefix(ref, commandPrefix) }

// CheckCommand returns an error when command:... cannot be a command. It runs nothing, and the
// program need not exist.
func CheckCommand(ref string) error {
	_, err := commandWords(ref)
	return err
}

// Shown is a reference for people. Of a command it is the program, because an argument may be a
// secret.
func Shown(ref string) string {
	if !IsCommand(ref) {
		return ref
	}
	all, err := commandWords(ref)
	if err != nil {
		return commandPrefix
	}
	return commandPrefix + all[0]
}

// Commands asks programs for secrets, and each of them once: it remembers what they printed. The
// zero value is ready for use. It is safe for concurrent use.
type Commands struct {
	Patience time.Duration // how long a program may take; 30 s when zero

	mu    sync.Mutex
	asked map[string]*printed // by reference: those that are running, and those that succeeded
}

// printed is what a command printed.
type printed struct {
	done    chan struct{} // closed at the end; the rest may be read then
	value   string
	err     error
	stopped bool // the context ended, which says nothing about the command
}

// Resolve returns what the program prints for command:PROGRAM ARGUMENT..., without the last line
// end. For any other ref it is the function Resolve. Calls that come while the program runs get the
// same answer. After a failure the next call runs the program again.
func (c *Commands) Resolve(ctx context.Context, ref string) (string, error) {
	if !IsCommand(ref) {
		return Resolve(ref)
	}
	for {
		p, first := c.entry(ref)
		if first {
			c.answer(ctx, ref, p)
			return p.value, p.err
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return "", fmt.Errorf("wait for the command %s: %w", Shown(ref), ctx.Err())
		}
		if !p.stopped {
			return p.value, p.err
		}
	}
}

// Forget makes the next Resolve of ref run its program again. It does nothing for a ref that names
// no program, because only what programs print is remembered.
func (c *Commands) Forget(ref string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, ref)
}

// ForgetAll is Forget for all programs.
func (c *Commands) ForgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = nil
}

// entry is what is known about a command. The first one who asks has to answer.
func (c *Commands) entry(ref string) (p *printed, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.asked[ref]; ok {
		return p, false
	}
	if c.asked == nil {
		c.asked = map[string]*printed{}
	}
	p = &printed{done: make(chan struct{})}
	c.asked[ref] = p
	return p, true
}

func (c *Commands) answer(ctx context.Context, ref string, p *printed) {
	p.value, p.err = c.run(ctx, ref)
	p.stopped = p.err != nil && ctx.Err() != nil
	if p.err != nil {
		c.mu.Lock()
		delete(c.asked, ref)
		c.mu.Unlock()
	}
	close(p.done)
}

func (c *Commands) run(ctx context.Context, ref string) (string, error) {
	all, err := commandWords(ref)
	if err != nil {
		return "", err
	}
	return c.Run(ctx, all)
}

// Run runs a program with the environment of postrider, and nothing on standard input. It returns
// what the program prints, without the last line end, and remembers nothing.
func (c *Commands) Run(ctx context.Context, all []string) (string, error) {
	name := all[0]
	path, err := findProgram(name)
	if err != nil {
		return "", err
	}
	limit := patience
	if c.Patience > 0 {
		limit = c.Patience
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out := &program.Head{Limit: maxSize, Full: cancel}
	complaint := &program.Head{Limit: maxComplaint}
	cmd := exec.CommandContext(limited, path, all[1:]...)
	cmd.Stdout, cmd.Stderr = out, complaint
	err = program.Run(cmd)
	says := complaintOf(complaint.String(), out.String())
	value := cutLineEnd(out.String())
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the command %s was stopped: %w", name, ctx.Err())
	case out.More:
		return "", fmt.Errorf("the command %s printed more than %d KiB, too large for a secret; "+
			"correct its arguments", name, maxSize>>10)
	case limited.Err() != nil:
		return "", fmt.Errorf("the command %s did not end within %s and was killed%s; "+
			"it must not ask anything: try it with `</dev/null` as the user that runs postrider", name, limit, says)
	case err != nil:
		return "", fmt.Errorf("the command %s failed: %w%s; try it as the user that runs postrider", name, err, says)
	case value == "":
		return "", fmt.Errorf("the command %s printed nothing to standard output%s", name, says)
	}
	return value, nil
}

// findProgram is the path of a program that only this user and root can change.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the command cannot be run: %w; "+
			"write the whole path of the program, because the PATH of cron is short", err)
	}
	info, err := os.Stat(path)
	if err == nil {
		err = CheckWriters(path, info, "run programs as this user")
	}
	if err != nil {
		return "", fmt.Errorf("the command %s is not run: %w", path, err)
	}
	return path, nil
}

// complaintOf is what a program wrote to standard error, as a part of an error: one line without
// anything that the program wrote to standard output.
func complaintOf(stderr, stdout string) string {
	for line := range strings.Lines(stdout) {
		if line = strings.TrimSpace(line); line != "" {
			stderr = strings.ReplaceAll(stderr, line, redacted)
		}
	}
	if stderr = text.Line(stderr); stderr == "" {
		return ""
	}
	return ` (it says: ` + text.Cut(stderr, maxShown) + `)`
}

// cutLineEnd removes one line end.
func cutLineEnd(s string) string {
	return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r")
}
