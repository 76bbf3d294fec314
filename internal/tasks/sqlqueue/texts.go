package sqlqueue

import (
	"iter"
	"strings"

	"postrider/internal/db"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// texts are conditions for the texts of a filter. They hold for all tasks that Filter.Matches is
// for, and for some others: each word is looked for, because what is between two words may be more
// than the one space that is shown.
func (q *Queue) texts(f tasks.Filter, add func(cond string, arg any)) {
	for _, c := range []struct{ column, part string }{
		{"t.sender", f.Sender}, {"t.subject", f.Subject}, {"t.message_id", f.MessageID},
	} {
		for word := range words(c.part) {
			add(q.mayHave(c.column), word)
		}
	}
	for word := range words(f.Recipient) { // counted, because the servers would make a join of EXISTS, and sort
		has := q.mayHave("d.recipient")
		add("(SELECT COUNT(*) FROM monitored_emails_deliveries d WHERE d.task_id = t.id AND "+has+") > 0", word)
	}
}

func words(part string) iter.Seq[string] { return strings.FieldsSeq(text.Sought(part)) }

// mayHave is a condition with one argument, a word. Databases fold fewer characters than Go: a word
// may be in any text that is not ASCII.
func (q *Queue) mayHave(column string) string {
	sql := "(INSTR(LOWER(text), ?) > 0 OR LENGTH(CAST(text AS BLOB)) <> LENGTH(text))"
	if q.db.Dialect() == db.MySQL {
		sql = "(INSTR(CAST(LOWER(text) AS BINARY), ?) > 0 OR LENGTH(text) <> CHAR_LENGTH(text))"
	}
	return strings.ReplaceAll(sql, "text", column)
}
