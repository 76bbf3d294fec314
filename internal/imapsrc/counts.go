package imapsrc

import (
	"context"
	"errors"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// maxCounted is how many folders are counted: some servers read a whole folder to count it.
const maxCounted = 100

// Counts says how many messages are in each of the folders. It leaves out folders that the server
// does not count, and all after the first hundred.
func (c *Conn) Counts(ctx context.Context, names []string) (map[string]uint32, error) {
	counts := map[string]uint32{}
	names = names[:min(len(names), maxCounted)]
	err := c.do(ctx, "count the messages of the folders", smallAnswer, func() error {
		return c.statuses(names, imap.StatusOptions{NumMessages: true}, func(name string, data *imap.StatusData) {
			if data.NumMessages != nil {
				counts[name] = *data.NumMessages
			}
		})
	})
	return counts, err
}

// statuses sends STATUS (RFC 3501 6.3.10) for all folders at once, within do. It leaves out folders
// without an answer.
func (c *Conn) statuses(names []string, options imap.StatusOptions, each func(string, *imap.StatusData)) (lost error) {
	var asked []*imapclient.StatusCommand
	for _, name := range names {
		asked = append(asked, c.client.Status(name, &options))
	}
	for i, cmd := range asked {
		data, err := cmd.Wait()
		switch no := new(imap.Error); {
		case err == nil:
			each(names[i], data)
		case !errors.As(err, &no):
			lost = err
		}
	}
	return lost
}
