package contacts

import (
	"fmt"
	"strings"

	"postrider/internal/text"
)

// View is a contact as JSON.
type View struct {
	ID       int64    `json:"id"`
	Name     string   `json:"name"`
	Email    string   `json:"email"`
	Keywords []string `json:"keywords"`
	Active   bool     `json:"active"`
}

// View is the contact as JSON.
func (c Contact) View() View {
	return View{c.ID, c.Name, c.Email, append([]string{}, c.Keywords...), c.Active}
}

// Lines are the changes, one a line.
func Lines(changes []Change) string {
	var out strings.Builder
	for _, c := range changes {
		if s := c.String(); s != "" {
			out.WriteString(text.Line(s) + "\n")
		}
	}
	return out.String()
}

// Summary counts the changes.
func Summary(changes []Change) string {
	var added, changed int
	for _, c := range changes {
		switch {
		case c.Old == nil:
			added++
		case c.String() != "":
			changed++
		}
	}
	return fmt.Sprintf("%d new, %d changed, %d unchanged.\n", added, changed, len(changes)-added-changed)
}
