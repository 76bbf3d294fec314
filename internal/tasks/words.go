package tasks

import (
	"fmt"
	"strconv"
)

// DuplicatePrefix and the id of a task make the reason of a duplicate of it.
const DuplicatePrefix = "duplicate: the same message is task "

// DuplicateOf is the reason of a task that is skipped because an equal message is forwarded as task id.
func DuplicateOf(id int64) string {
	return DuplicatePrefix + strconv.FormatInt(id, 10)
}

// Poisoned is the reason of a task that is dead because it lost so many leases, the last one under worker.
func Poisoned(id int64, lostLeases int, worker string) string {
	return fmt.Sprintf("its worker died or hung %d times (last: %s): it seems to kill its workers; try again with `postrider task retry %d`",
		lostLeases, worker, id)
}

// Conflict is what the audit trail says of a receipt that was stale when its holder wanted the task to become wanted.
// is, and by whom it was claimed last, are empty when the task has been deleted.
func Conflict(wanted, is Status, claimedBy string) string {
	switch {
	case is == "":
		return fmt.Sprintf("its lease was lost, and it wanted %s; the task has been deleted", wanted)
	case claimedBy == "":
		return fmt.Sprintf("its lease was lost, and it wanted %s; the task is %s", wanted, is)
	}
	return fmt.Sprintf("its lease was lost, and it wanted %s; the task is %s, last claimed by %s", wanted, is, claimedBy)
}
