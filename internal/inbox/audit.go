package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/text"
)

// Audit is what the last audit of an inbox found. Package pass makes it.
type Audit struct {
	StartedAt   time.Time `json:"started_at"`
	DurationMS  int64     `json:"duration_ms"`
	By          string    `json:"by"`          // who ran it
	Messages    int       `json:"messages"`    // on the server
	Accounted   int       `json:"accounted"`   // of these
	Unaccounted int       `json:"unaccounted"` // missing or reappeared messages, and deleted tasks
	Clean       bool      `json:"clean"`       // all was compared, and every message is accounted for
	Summary     string    `json:"summary"`     // as the command prints it
	Error       string    `json:"error"`       // why not all was compared; a folder's own is a finding
	Findings    []Finding `json:"findings"`    // at most MaxFindings
}

// Finding is a folder that was not compared, or what is not accounted for in one.
type Finding struct {
	Folder   string     `json:"folder"`
	UID      uint32     `json:"uid,omitempty"` // 0: the folder as a whole
	TaskID   int64      `json:"task_id,omitempty"`
	Received *time.Time `json:"received,omitempty"` // by the server; nil when unknown
	Size     int64      `json:"size,omitempty"`     // octets; 0 when unknown
	Says     string     `json:"says"`               // what is wrong, in one line
}

// MaxFindings is how many findings are stored of an audit.
const MaxFindings = 20

// Took is how long it took.
func (a Audit) Took() time.Duration { return time.Duration(a.DurationMS) * time.Millisecond }

// More is how many messages and tasks are not accounted for and not among the findings.
func (a Audit) More() int {
	listed := 0
	for _, f := range a.Findings {
		if f.UID != 0 {
			listed++
		}
	}
	return a.Unaccounted - listed
}

// KeepAudit stores the result of an audit in place of the last one. It stores nothing when the
// inbox was removed meanwhile. Findings after MaxFindings are dropped, and long texts are cut.
func (s *Store) KeepAudit(ctx context.Context, inboxID int64, a Audit) error {
	findings := make([]Finding, min(len(a.Findings), MaxFindings))
	for i := range findings {
		findings[i] = a.Findings[i]
		findings[i].Folder, findings[i].Says = text.Cut(findings[i].Folder, 512), text.Cut(findings[i].Says, 500)
	}
	list, err := json.Marshal(findings)
	if err == nil {
		err = s.db.Tx(ctx, func(tx *gorm.DB) error {
			return db.Run(tx, sqlKeepAudit, a.StartedAt.UTC(), a.DurationMS, db.Cut(a.By, 255),
				a.Messages, a.Accounted, a.Unaccounted, a.Clean,
				db.Cut(a.Summary, 4000), db.Cut(a.Error, 4000), string(list), inboxID)
		})
	}
	if err != nil {
		return fmt.Errorf("store the result of the audit: %w", err)
	}
	return nil
}

// AuditBegins notes in the trail of an inbox that an operator has it audited.
func (s *Store) AuditBegins(ctx context.Context, inboxID int64, who, detail string) error {
	now, err := s.db.Clock(ctx)
	if err == nil {
		err = s.db.Tx(ctx, func(tx *gorm.DB) error {
			return db.Run(tx, sqlAuditBegins, now, db.Cut(who, 255), db.Cut(detail, 4000), inboxID, inboxID, now)
		})
	}
	if err != nil {
		return fmt.Errorf("record the start of the audit: %w", err)
	}
	return nil
}

// auditRow is a row of monitored_audits.
type auditRow struct {
	Audit
	inboxID  int64
	findings string
}

func (r *auditRow) into() []any {
	return []any{
		&r.inboxID, &r.StartedAt, &r.DurationMS, &r.By, &r.Messages, &r.Accounted, &r.Unaccounted,
		&r.Clean, &r.Summary, &r.Error, &r.findings,
	}
}

// Audits returns the last audits of the inboxes, by their ids. An inbox that was never audited has
// none.
func (s *Store) Audits(ctx context.Context, inboxIDs ...int64) (map[int64]Audit, error) {
	out := map[int64]Audit{}
	err := s.db.View(ctx, func(tx *gorm.DB) error {
		for ids := range slices.Chunk(inboxIDs, 1000) {
			rows, err := db.Query(tx, (*auditRow).into, sqlAudits, ids)
			if err != nil {
				return err
			}
			for _, r := range rows {
				r.StartedAt = r.StartedAt.UTC()
				if err := json.Unmarshal([]byte(r.findings), &r.Findings); err != nil {
					// The other inboxes are shown all the same.
					r.Error = "the findings cannot be read; run the audit again: " + err.Error()
				}
				out[r.inboxID] = r.Audit
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the last audits: %w", err)
	}
	return out, nil
}
