package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// errLocked is what tryLock reports while another process holds the lock.
var errLocked = errors.New("locked")

// lockFile takes an exclusive lock on the file. It creates the file and never removes it: otherwise
// two processes could lock two files of the same name. The lock ends with the process at the
// latest.
func lockFile(ctx context.Context, path string) (unlock func() error, err error) {
	if err := createPrivate(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	for {
		err := tryLock(f)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}
