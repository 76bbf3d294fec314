package pass

import (
	"testing"

	"postrider/internal/tasks"
)

func TestStrayNote(t *testing.T) {
	for _, tt := range []struct {
		name      string
		unwatched bool
		stray     Stray
		want      string
	}{
		{
			"expunged", false,
			Stray{UIDValidity: 7, Status: tasks.Error},
			"is no longer on the server; a run that does not find it ends it as vanished",
		},
		{
			"expunged, uncertain", false,
			Stray{UIDValidity: 7, Status: tasks.Uncertain},
			"is no longer on the server; an operator has to decide, and it cannot be sent again",
		},
		{
			"reappeared", false,
			Stray{TaskID: 12, UIDValidity: 7, Status: tasks.Skipped},
			"was skipped as vanished, and is on the server; to forward it: `postrider task retry 12`",
		},
		{
			"another epoch", false,
			Stray{UIDValidity: 6, Status: tasks.Received},
			"of UIDVALIDITY 6 has not been found again; a run that does not find it ends it as vanished",
		},
		{
			"deleted", false,
			Stray{TaskID: 12, UIDValidity: 6},
			"of UIDVALIDITY 6 has not been found again; " +
				"something other than postrider deleted its task, so it is unknown who got it",
		},
		{
			"not watched", true,
			Stray{UIDValidity: 6, Status: tasks.Uncertain},
			"is of a folder that is not watched any more; an operator has to decide: `postrider task resolve`",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.stray.Note(&FolderAudit{UIDValidity: 7, Unwatched: tt.unwatched}); got != tt.want {
				t.Errorf("the note is %q, want %q", got, tt.want)
			}
		})
	}
}
