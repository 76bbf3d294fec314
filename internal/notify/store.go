package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"postrider/internal/address"
	"postrider/internal/db"
)

// channel receives notices: the hook, or an address.
type channel struct {
	key     string // of its rows
	address string // as configured; empty for the hook
}

const (
	hookKey    = "hook"
	mailPrefix = "mail:" // the key of an address is mailPrefix and the address
)

func (c channel) isHook() bool { return c.address == "" }

// mailTo returns the channel of an address. All spellings of the address have the same key.
func mailTo(to string) channel {
	key := to
	if a, err := address.Parse(to); err == nil {
		key = a.Key()
	}
	return channel{mailPrefix + key, to}
}

// String returns hook, or mail: and the address as configured.
func (c channel) String() string {
	if c.isHook() {
		return c.key
	}
	return mailPrefix + c.address
}

// Store records what was reported. It is safe for concurrent use by any number of processes.
type Store struct{ db *db.DB }

// NewStore returns the store over a database.
func NewStore(d *db.DB) *Store { return &Store{d} }

// News is what was not reported to a channel yet.
type News struct {
	At      time.Time // by the database's clock
	Tasks   []Ending  // sorted by ID
	Bounces []Ending  // sorted by ID; FinishedAt is when the last bounce was recorded
	Outages []Outage  // sorted by address

	Recipients []Repeated // sorted by address
	Damaged    []error    // rows that hold invalid values, and how to fix them
}

func (n News) empty() bool { return n.size() == 0 }

func (n News) size() int { return len(n.Tasks) + len(n.Bounces) + len(n.Outages) + len(n.Recipients) }

// Ending is a task that is dead or uncertain, or has bounced.
type Ending struct {
	ID         int64
	Status     Kind
	FinishedAt time.Time
}

// Outage is a time in which the scans of an inbox fail.
type Outage struct {
	ID          int64
	Kind        Kind // Unreachable or NeedsLogin
	Address     string
	FailedScans int
	LastError   string
	Since       time.Time
	Until       *time.Time // nil while it lasts
}

// at is the time that identifies the last thing to report of an outage: its end, or its beginning.
func (o Outage) at() time.Time {
	if o.Until != nil {
		return *o.Until
	}
	return o.Since
}

// News reads what was not reported to a channel yet, of the given kinds.
func (s *Store) News(ctx context.Context, ch channel, on []Kind) (news News, err error) {
	statuses := slices.DeleteFunc(slices.Clone(on), func(k Kind) bool {
		return k.ofInbox() || k == Bounced || k == RecipientBounces
	})
	addOutage := func(r outageRow) { news.addOutage(r, on) }
	err = s.db.View(ctx, func(tx *gorm.DB) error {
		news = News{}
		if news.At, err = s.db.Now(tx); err != nil {
			return err
		}
		inboxes, err := db.Query(tx, db.Value[int64], sqlInboxes)
		if err != nil || len(inboxes) == 0 {
			return err
		}
		if len(statuses) > 0 {
			err = each(tx, "monitored_emails_tasks", (*endingRow).into, news.addEnding,
				sqlEndings, ch.key, inboxes, statuses)
		}
		if err == nil && slices.Contains(on, Bounced) {
			err = each(tx, "monitored_emails_arrivals", (*endingRow).into, news.addBounce, sqlBounced, ch.key, inboxes)
		}
		if err == nil && slices.Contains(on, RecipientBounces) {
			err = each(tx, "suspended_recipients", (*repeatedRow).into, news.addRepeated, sqlRepeated, ch.key)
		}
		if err == nil && slices.ContainsFunc(on, Kind.ofInbox) {
			err = each(tx, "monitored_emails", (*outageRow).into, addOutage, sqlOutages, ch.key)
		}
		return err
	})
	if err != nil {
		return News{}, fmt.Errorf("read what was not reported yet: %w", err)
	}
	return news, nil
}

// each adds the rows of a query. The error names their table.
func each[R any](tx *gorm.DB, table string, into func(*R) []any, add func(R), sql string, args ...any) error {
	rows, err := db.Query(tx, into, sql, args...)
	if err != nil {
		return fmt.Errorf("in the table %s: %w", table, err)
	}
	for _, r := range rows {
		add(r)
	}
	return nil
}

// channelRow is a row of monitored_emails_channels.
type channelRow struct {
	Channel   string `gorm:"primaryKey"`
	ToldAt    int64
	Failures  int
	FailedAt  int64
	LastError string
	Holder    string
	HeldAt    int64
}

// due reports whether this run may send a digest now.
func (r channelRow) due(c Config, now int64) bool {
	held := r.Holder != "" && r.Holder != c.Worker && within(r.HeldAt, now, c.lease())
	return !held && !within(r.ToldAt, now, c.AtMost) && !within(r.FailedAt, now, pause(r.Failures))
}

// within reports whether less than d has passed since then. It is false when then is in the future,
// so that a clock that was set back does not delay anything.
func within(then, now int64, d time.Duration) bool {
	return then <= now && now-then < d.Microseconds()
}

// pause is how long a channel gets no digest after this number of failures in a row.
func pause(failures int) time.Duration {
	if failures < 3 {
		return 0
	}
	return min(time.Minute<<min(failures-3, 6), time.Hour)
}

// acquire takes the lease of a channel when a digest may be sent now, and reports whether it did.
// The run writes its name and the time into the channel's row: of two nodes of a Galera cluster
// that do so at once, one has to try again.
func (s *Store) acquire(ctx context.Context, ch channel, c Config) (mine bool, err error) {
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		mine = false
		fresh := channelRow{Channel: ch.key}
		if err := tx.Table(tableChannels).Clauses(clause.OnConflict{DoNothing: true}).Create(&fresh).Error; err != nil {
			return err
		}
		row, err := s.row(tx, s.db.Lock(sqlChannel), ch)
		if err != nil {
			return err
		}
		// The clock is read after the row is locked. Otherwise times that another run wrote could
		// be in the future.
		now, err := s.db.Now(tx)
		if err != nil || !row.due(c, now.UnixMicro()) {
			return err
		}
		mine = true
		return db.Run(tx, sqlHold, c.Worker, now.UnixMicro(), ch.key)
	})
	if err != nil {
		return false, fmt.Errorf("check whether a failure notice to %s is due: %w", ch, err)
	}
	return mine, nil
}

func (s *Store) row(tx *gorm.DB, sql string, ch channel) (row channelRow, err error) {
	err = tx.Raw(sql, ch.key).Scan(&row).Error
	return row, err
}

// errTaken says that another run holds the channel's lease.
var errTaken = errors.New("another run holds the lease")

// renew renews the lease of the channel, or returns errTaken.
func (s *Store) renew(ctx context.Context, ch channel, worker string) error {
	return s.update(ctx, ch, func(tx *gorm.DB, now time.Time) error {
		matched, err := db.Exec(tx, sqlRenew, now.UnixMicro(), ch.key, worker)
		if err == nil && matched == 0 {
			return errTaken
		}
		return err
	})
}

func (s *Store) release(ctx context.Context, ch channel, worker string) error {
	return s.update(ctx, ch, func(tx *gorm.DB, _ time.Time) error { return db.Run(tx, sqlLetGo, ch.key, worker) })
}

func (s *Store) failed(ctx context.Context, ch channel, worker string, why error) error {
	return s.update(ctx, ch, func(tx *gorm.DB, now time.Time) error {
		return db.Run(tx, sqlFailed, now.UnixMicro(), db.Cut(why.Error(), maxError), ch.key, worker)
	})
}

// reported records the news as reported, also when another run has taken the lease over.
func (s *Store) reported(ctx context.Context, ch channel, worker string, news News) error {
	var rows [][]any
	for _, t := range news.Tasks {
		rows = append(rows, []any{ch.key, "task", t.ID, t.FinishedAt.UTC()})
	}
	for _, t := range news.Bounces {
		rows = append(rows, []any{ch.key, "bounce", t.ID, t.FinishedAt.UTC()})
	}
	for _, o := range news.Outages {
		rows = append(rows, []any{ch.key, "inbox", o.ID, o.at().UTC()})
	}
	for _, r := range news.Recipients {
		rows = append(rows, []any{ch.key, "recipient", r.ID, r.Since})
	}
	return s.update(ctx, ch, func(tx *gorm.DB, now time.Time) error {
		if err := db.Upsert(tx, tableTold, "channel, kind, ref_id", "at", rows); err != nil {
			return err
		}
		for _, orphans := range []string{sqlForgetTasks, sqlForgetInboxes, sqlForgetRecipients} {
			if err := db.Run(tx, orphans); err != nil {
				return err
			}
		}
		return db.Run(tx, sqlTold, now.UnixMicro(), ch.key, worker)
	})
}

func (s *Store) update(ctx context.Context, ch channel, change func(tx *gorm.DB, now time.Time) error) error {
	if err := s.db.Change(ctx, change); err != nil {
		return fmt.Errorf("record the state of the failure notices to %s: %w", ch, err)
	}
	return nil
}

// Waiting says how much was not reported to a channel yet.
type Waiting struct {
	Channel   string `json:"channel"` // hook, or mail: and an address
	Waiting   int    `json:"waiting"` // messages, inboxes and recipients
	LastError string `json:"last_error"`
}

// Waiting returns the channels to which something was not reported yet.
func (s *Store) Waiting(ctx context.Context, c Config) ([]Waiting, error) {
	out := []Waiting{}
	for _, ch := range c.channels() {
		news, err := s.News(ctx, ch, c.On)
		if err != nil {
			return nil, err
		}
		if news.empty() {
			continue
		}
		var row channelRow
		err = s.db.View(ctx, func(tx *gorm.DB) error {
			row, err = s.row(tx, sqlChannel, ch)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the state of the failure notices to %s: %w", ch, err)
		}
		out = append(out, Waiting{ch.String(), news.size(), row.LastError})
	}
	return out, nil
}

const maxError = 2000
