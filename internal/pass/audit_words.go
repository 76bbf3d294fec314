package pass

import (
	"fmt"
	"strings"

	"postrider/internal/tasks"
)

// Accounts lists the accounts that have messages, with their numbers, and how many of them were
// confirmed and bounced.
func (f *FolderAudit) Accounts() string {
	parts := counted(f.Counts)
	if f.Registered > 0 {
		parts = append(parts, fmt.Sprintf("%d registered now", f.Registered))
	}
	var reported []string
	if f.Confirmed > 0 {
		reported = append(reported, fmt.Sprintf("%d confirmed", f.Confirmed))
	}
	if f.Bounced > 0 {
		reported = append(reported, fmt.Sprintf("%d bounced", f.Bounced))
	}
	out := strings.Join(parts, ", ")
	if len(reported) > 0 {
		out += "; of them " + strings.Join(reported, ", ")
	}
	return out
}

// counted is like "3 forwarded", for each account except missing, which has its own column.
func counted(counts map[Account]int) (parts []string) {
	for _, as := range Accounts {
		if n := counts[as]; n > 0 && as != AsMissing {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(as), "_", " ")))
		}
	}
	return parts
}

// Note says what else is to be known about the folder. It may be empty.
func (f *FolderAudit) Note() string {
	switch {
	case f.Error != "":
		return f.Error
	case f.NeverScanned:
		return "never scanned: the next run begins with it"
	case f.Unwatched:
		parts := counted(f.GoneAs)
		if len(f.Strays) > 0 {
			parts = append(parts, fmt.Sprintf("%d to look at", len(f.Strays)))
		}
		return "not watched any more, so not compared; it had " + strings.Join(parts, ", ")
	case f.Gone > 0:
		return fmt.Sprintf("%d no longer on the server: %s", f.Gone, strings.Join(counted(f.GoneAs), ", "))
	}
	return ""
}

// Note is what is wrong with a stray of the folder, and what to do about it.
func (s Stray) Note(f *FolderAudit) string {
	where := "is no longer on the server"
	switch {
	case s.Status == tasks.Skipped:
		return fmt.Sprintf("was skipped as vanished, and is on the server; to forward it: `postrider task retry %d`",
			s.TaskID)
	case f.Unwatched:
		where = "is of a folder that is not watched any more"
	case s.UIDValidity != f.UIDValidity:
		where = fmt.Sprintf("of UIDVALIDITY %d has not been found again", s.UIDValidity)
	}
	switch {
	case s.Lost():
		return where + "; something other than postrider deleted its task, so it is unknown who got it"
	case s.Status == tasks.Uncertain && f.Unwatched:
		return where + "; an operator has to decide: `postrider task resolve`"
	case s.Status == tasks.Uncertain:
		return where + "; an operator has to decide, and it cannot be sent again"
	}
	return where + "; a run that does not find it ends it as vanished"
}

// Verdict is the result in one line, and what to do about it. There has to be an inbox.
func (r *AuditReport) Verdict() string {
	sum := r.Sum()
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(sum.Forgotten > 0, "Forgotten: %d whose tasks were deleted and that are not on the server either.",
		sum.Forgotten)
	add(sum.Registered > 0, "Registered: %d that were missing; the next run processes them.", sum.Registered)
	add(sum.Missing > 0, "Missing: %d; to register them, as a run would: `postrider audit --repair`.", sum.Missing)
	add(sum.Reappeared > 0, "Skipped as vanished, but on the server: %d; an operator has to decide about them.",
		sum.Reappeared)
	add(sum.Lost > 0, "Deleted by something other than postrider, and not on the server either: %d; "+
		"restore the database from a backup, or forget them: `postrider audit --repair`.", sum.Lost)
	add(!sum.Proved, "Not everything could be compared, so the audit is inconclusive.")
	add(sum.Clean(), "Every message is accounted for: %d on the servers.", sum.Messages)
	add(sum.Clean() && sum.Gone > 0, "No longer there, and accounted for: %d.", sum.Gone)
	add(sum.Clean() && sum.Unwatched > 0, "In folders that are no longer watched, and accounted for: %d.",
		sum.Unwatched)
	add(sum.Confirmed > 0, "Confirmed by the recipients' servers: %d.", sum.Confirmed)
	add(sum.Bounced > 0, "Bounced after the relay had accepted them: %d; see `postrider task list --bounced`.",
		sum.Bounced)
	return strings.Join(parts, " ")
}
