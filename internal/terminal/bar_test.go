package terminal

import (
	"strings"
	"testing"
)

func TestBar(t *testing.T) {
	var out strings.Builder
	idle := &Bar{To: &out, Doing: "forwarding"}
	idle.Expect(0)
	idle.Done(1)
	idle.Clear()
	idle.Close()
	if out.Len() > 0 {
		t.Errorf("with nothing to do it draws %q, want nothing", out.String())
	}
	busy := &Bar{To: &out, Doing: "forwarding"}
	busy.Expect(1)
	busy.Expect(2)
	busy.Done(2)
	busy.Done(2) // more than expected
	busy.Close()
	if !strings.Contains(out.String(), "forwarding") || !strings.Contains(out.String(), "(2/3") {
		t.Errorf("with three messages it draws %q, want how many are done", out.String())
	}
	var nowhere Bar
	nowhere.Expect(1)
	nowhere.Done(1)
	nowhere.Close()
}
