package pass

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
)

// badDisk is a source of messages in temporary files that cannot be read beyond their headers.
type badDisk struct {
	Source
	t *testing.T
}

func (s badDisk) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	return s.Source.Bodies(ctx, uids, func(uid uint32, m *message.Message) error {
		raw, err := io.ReadAll(m.Body.Reader())
		check(s.t, err)
		check(s.t, m.Close())
		dir := s.t.TempDir()
		m = spooled(s.t, &message.Spooler{Dir: dir}, raw)
		breakFiles(s.t, dir)
		return each(uid, m)
	})
}

// breakFiles makes every read of the open files in dir fail.
func breakFiles(t *testing.T, dir string) {
	t.Helper()
	unreadable, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	check(t, err)
	defer func() { check(t, unreadable.Close()) }()
	open, err := filepath.Glob("/proc/self/fd/*")
	check(t, err)
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, dir) {
			n, err := strconv.Atoi(filepath.Base(fd))
			check(t, err)
			check(t, syscall.Dup3(int(unreadable.Fd()), n, syscall.O_CLOEXEC))
		}
	}
}

// TestUnreadable: a message that cannot be read from the disk is not decided on. It is tried again,
// and others go on.
func TestUnreadable(t *testing.T) {
	r := newRig(t, nil,

		route.Rule{Name: "words", Match: route.Match{Body: []string{"invoice"}}, To: []string{"team@firm.example"}})
	r.add(inbox.StartAll)
	restore := r.behind(func(s Source) Source { return badDisk{s, t} })
	r.put("INBOX", testserver.Mail("a@x.example", address, "x", "the invoice"))
	r.want(r.run(), Counters{Registered: 1, Retry: 1})
	task := r.tasks()[0]
	const want = "read the message to decide on it: "
	if task.Status != tasks.Error || task.Attempts != 1 || !strings.HasPrefix(task.Reason, want) {
		t.Errorf("the task is %s (%q) after %d attempts, want error after one, and a reason that begins with %q",
			task.Status, task.Reason, task.Attempts, want)
	}
	restore()
	r.put("INBOX", testserver.Mail("a@x.example", address, "y", "no word of it"))
	r.clock.advance(time.Hour)
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1, SkippedNoMatch: 1})
}
