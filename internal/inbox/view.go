package inbox

import (
	"maps"
	"time"

	"postrider/internal/text"
)

// View is an inbox as JSON. The password is not in it, only where it comes from.
type View struct {
	Email          string       `json:"email"`
	Active         bool         `json:"active"`
	Description    string       `json:"description"`
	Host           string       `json:"host"`
	Port           int          `json:"port"`
	Security       Security     `json:"security"`
	AllowPlaintext bool         `json:"allow_plaintext"`
	AllowDelete    bool         `json:"allow_delete"`
	Username       string       `json:"username"`
	Auth           string       `json:"auth"`
	CAFile         string       `json:"ca_file"`
	TLSFingerprint string       `json:"tls_fingerprint"`
	ClientCert     string       `json:"client_cert"`
	PasswordFrom   string       `json:"password_from"`
	Start          Start        `json:"start"`
	Folders        []FolderView `json:"folders"`
	Labels         Labels       `json:"labels"`
	LastScannedAt  *time.Time   `json:"last_scanned_at"`
	LastError      string       `json:"last_error"`
	NeedsLogin     string       `json:"needs_login,omitempty"` // why a person has to log in (OAuth2)
	CreatedAt      time.Time    `json:"created_at"`
	UpdatedAt      time.Time    `json:"updated_at"`
}

// FolderView is a folder as JSON.
type FolderView struct {
	Name          string     `json:"name"`
	Active        bool       `json:"active"`
	UIDValidity   uint32     `json:"uid_validity"`
	LastSeenUID   uint32     `json:"last_seen_uid"`
	StartUID      uint32     `json:"start_uid"`
	InitializedAt *time.Time `json:"initialized_at"`
	LastScannedAt *time.Time `json:"last_scanned_at"`
}

// View is an inbox as JSON. needsLogin is why a person has to log in.
func (s *Store) View(in Inbox, needsLogin string) View {
	v := View{
		Email: in.Address, Active: in.Active, Description: in.Description, Host: in.Host, Port: in.Port,
		Security: in.Security, AllowPlaintext: in.AllowPlaintext, AllowDelete: in.AllowDelete,
		Username: in.Username, Auth: in.Auth,
		CAFile: in.CAFile, TLSFingerprint: in.TLSFingerprint, ClientCert: in.ClientCert,
		PasswordFrom: s.PasswordFrom(in), Start: in.Start, Folders: in.FolderViews(), Labels: Labels{},
		LastScannedAt: text.UTC(in.LastScannedAt), LastError: in.LastError, NeedsLogin: needsLogin,
		CreatedAt: in.CreatedAt.UTC(), UpdatedAt: in.UpdatedAt.UTC(),
	}
	maps.Copy(v.Labels, in.Labels)
	return v
}

// FolderViews are the folders as JSON.
func (in Inbox) FolderViews() []FolderView {
	out := []FolderView{}
	for _, f := range in.Folders {
		out = append(out, FolderView{
			Name: f.Name, Active: f.Active, UIDValidity: f.Epoch(), LastSeenUID: f.LastSeenUID, StartUID: f.StartUID,
			InitializedAt: text.UTC(f.InitializedAt), LastScannedAt: text.UTC(f.LastScannedAt),
		})
	}
	return out
}
