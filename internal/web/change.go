package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// maxWhy is the length of a reason, in characters.
const maxWhy = 200

// by is the user and the reason that the form has.
func by(r *http.Request, u user) (tasks.By, *failure) {
	who := tasks.By{Who: u.who(), Why: text.Line(r.PostFormValue("why"))}
	switch {
	case who.Why == "":
		return who, &failure{
			http.StatusUnprocessableEntity, "Nothing was changed: write why. The reason stands in the audit trail.",
		}
	case len([]rune(who.Why)) > maxWhy:
		return who, &failure{
			http.StatusUnprocessableEntity, "Nothing was changed: the reason is too long. It may have 200 characters.",
		}
	}
	return who, nil
}

// changeMessage does what an operator chose, as the commands do.
func (s *Server) changeMessage(w http.ResponseWriter, r *http.Request, u user) error {
	id, err := messageID(r)
	if err != nil {
		return err
	}
	for _, c := range changes() {
		if c.Action == r.PathValue("action") {
			return s.apply(w, r, u, id, c)
		}
	}
	return errNoPage
}

func (s *Server) apply(w http.ResponseWriter, r *http.Request, u user, id int64, c choice) error {
	who, bad := by(r, u)
	if bad != nil {
		return s.showMessage(w, r, u, bad.code, messageBody{ID: id, Problem: bad.says, Why: who.Why})
	}
	if shown := tasks.Status(r.PostFormValue("state")); slices.Contains(c.command.From, shown) {
		c.command.From = []tasks.Status{shown} // somebody else may have changed it since
	}
	kept := ""
	job := tasks.Job{
		Queue: s.Queue, Command: c.command, By: who, IDs: []int64{id},
		Each: func(_ tasks.Task, why string) error { kept = why; return nil },
	}
	if _, err := job.Apply(r.Context()); err != nil {
		return err
	}
	s.report.drop()
	if kept != "" {
		body := messageBody{ID: id, Problem: "Nothing was changed: " + kept + ".", Why: who.Why}
		return s.showMessage(w, r, u, http.StatusConflict, body)
	}
	path := "/messages/" + r.PathValue("id") + "?" + url.Values{"done": {c.Action}}.Encode()
	http.Redirect(w, r, path, http.StatusSeeOther)
	return nil
}

// changeInbox enables or disables an inbox, or has it audited.
func (s *Server) changeInbox(w http.ResponseWriter, r *http.Request, u user) error {
	in, err := s.Inboxes.Get(r.Context(), r.PathValue("address"))
	if err != nil {
		return err
	}
	action := r.PathValue("action")
	if action != "enable" && action != "disable" && action != "audit" {
		return errNoPage
	}
	who, bad := by(r, u)
	if bad != nil {
		return s.showInbox(w, r, u, bad.code, inboxBody{Inbox: in, Problem: bad.says, Why: who.Why})
	}
	err = s.applyToInbox(r, in, action, who)
	if bad, ok := errors.AsType[*failure](err); ok {
		return s.showInbox(w, r, u, bad.code, inboxBody{Inbox: in, Problem: bad.says, Why: who.Why})
	}
	if err != nil {
		return err
	}
	s.report.drop()
	http.Redirect(w, r, inboxPath(in.Address)+"?"+url.Values{"done": {action}}.Encode(), http.StatusSeeOther)
	return nil
}

func (s *Server) applyToInbox(r *http.Request, in inbox.Inbox, action string, who tasks.By) error {
	switch action {
	case "audit":
		return s.startAudit(r.Context(), in, who)
	case "enable":
		return s.Inboxes.Enable(r.Context(), in.Address, who.Who, who.Detail())
	}
	return s.Queue.Disable(r.Context(), who, in.ID)
}
