package sqlqueue

import (
	"strings"
	"unicode"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// texts are conditions for the texts of a filter. They hold for all tasks that Filter.Matches is
// for, and for some others.
func (q *Queue) texts(f tasks.Filter, add func(cond string, arg any)) {
	for _, c := range []struct{ column, part string }{
		{"t.sender", f.Sender}, {"t.subject", f.Subject}, {"t.message_id", f.MessageID},
	} {
		if c.part != "" {
			add(q.mayHave(c.column, c.part), strings.ToLower(c.part))
		}
	}
	if f.Recipient != "" { // counted, because the servers would make a join of EXISTS, and sort
		add("(SELECT COUNT(*) FROM monitored_emails_deliveries d WHERE d.task_id = t.id AND "+q.mayHave("d.recipient", f.Recipient)+") > 0",
			strings.ToLower(f.Recipient))
	}
}

// mayHave is a condition with one argument, a part in lower case. Databases fold fewer letters than
// Go: a part with letters may be in any text that is not ASCII.
func (q *Queue) mayHave(column, part string) string {
	var sql string
	switch mysql := q.db.Dialect() == db.MySQL; {
	case mysql && cased(part):
		sql = "(INSTR(CAST(LOWER(text) AS BINARY), ?) > 0 OR LENGTH(text) <> CHAR_LENGTH(text))"
	case mysql:
		sql = "INSTR(CAST(text AS BINARY), ?) > 0"
	case cased(part):
		sql = "(INSTR(LOWER(text), ?) > 0 OR LENGTH(CAST(text AS BLOB)) <> LENGTH(text))"
	default:
		sql = "INSTR(text, ?) > 0"
	}
	return strings.ReplaceAll(sql, "text", column)
}

// cased reports whether a text has letters in upper or lower case.
func cased(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.SimpleFold(r) != r || unicode.ToLower(r) != r })
}
