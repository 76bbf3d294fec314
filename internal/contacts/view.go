package contacts

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
