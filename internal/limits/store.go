package limits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// All SQL of this package, by primary key. One text serves MySQL, MariaDB and SQLite.
const (
	sqlUsage    = `SELECT used FROM relay_usage WHERE relay = ?`
	sqlSetUsage = `UPDATE relay_usage SET used = ? WHERE relay = ?`
	sqlNewUsage = `INSERT INTO relay_usage (relay, used) VALUES (?, '{}')`
)

// errNoRow is a relay of which nothing is known yet.
var errNoRow = errors.New("no row")

// update changes the usage under the lock of its row. On Galera the lock holds on one node, but
// every grant is written to that row: of two nodes that do so at once, one gets a conflict and
// tries again. local is the host's clock when the database's was now, or before.
func (q *Quota) update(ctx context.Context, change func(u *usage, now int64, local time.Time)) error {
	once := func() error { return q.db.Tx(ctx, func(tx *gorm.DB) error { return q.change(tx, change) }) }
	err := once()
	for range 3 { // somebody may delete the row by hand
		if !errors.Is(err, errNoRow) {
			break
		}
		err = q.db.Tx(ctx, func(tx *gorm.DB) error { return db.Run(tx, sqlNewUsage, q.relay) })
		if err == nil || errors.Is(err, gorm.ErrDuplicatedKey) {
			err = once()
		}
	}
	return q.wrap(err)
}

func (q *Quota) change(tx *gorm.DB, change func(u *usage, now int64, local time.Time)) error {
	before, u, err := q.read(tx, q.db.Lock(sqlUsage))
	if err != nil {
		return err
	}
	local := q.cfg.Now()
	now, err := q.db.Now(tx) // under the lock: what is written later is later
	if err != nil {
		return err
	}
	u.tidy(now.UnixMicro())
	change(&u, now.UnixMicro(), local)
	after, err := json.Marshal(u)
	if err != nil || string(after) == before {
		return err
	}
	return db.Run(tx, sqlSetUsage, string(after), q.relay)
}

// look reads the usage without a lock.
func (q *Quota) look(ctx context.Context) (u usage, now int64, err error) {
	err = q.db.View(ctx, func(tx *gorm.DB) error {
		if _, u, err = q.read(tx, sqlUsage); err != nil && !errors.Is(err, errNoRow) {
			return err
		}
		at, err := q.db.Now(tx)
		now = at.UnixMicro()
		return err
	})
	u.tidy(now)
	return u, now, q.wrap(err)
}

func (q *Quota) read(tx *gorm.DB, sql string) (text string, u usage, err error) {
	res := tx.Raw(sql, q.relay).Scan(&text)
	switch {
	case res.Error != nil:
		return "", u, res.Error
	case res.RowsAffected == 0:
		return "", u, errNoRow
	}
	err = json.Unmarshal([]byte(text), &u)
	if err == nil {
		err = u.validate()
	}
	if err != nil {
		return "", u, fmt.Errorf("its row in the table relay_usage is damaged (%w); "+
			"delete it, and the limits count from zero", err)
	}
	return text, u, nil
}

func (q *Quota) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("count what was sent through %s, for smtp.limits: %w", q.relay, err)
}
