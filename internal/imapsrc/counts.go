package imapsrc

import (
	"context"
	"errors"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// maxCounted is how many folders are counted: some servers read a whole folder to count it.
const maxCounted = 100

// Counts says how many messages are in each of the folders. Folders that the server does not count,
// and all after the first hundred, are not in it.
func (c *Conn) Counts(ctx context.Context, names []string) (map[string]uint32, error) {
	counts := map[string]uint32{}
	names = names[:min(len(names), maxCounted)]
	err := c.do(ctx, "count the messages of the folders", smallAnswer, func() error {
		var asked []*imapclient.StatusCommand
		for _, name := range names {
			asked = append(asked, c.client.Status(name, &imap.StatusOptions{NumMessages: true}))
		}
		var lost error
		for i, cmd := range asked {
			data, err := cmd.Wait()
			var no *imap.Error
			switch {
			case err == nil && data.NumMessages != nil:
				counts[names[i]] = *data.NumMessages
			case err != nil && !errors.As(err, &no):
				lost = err
			}
		}
		return lost
	})
	return counts, err
}
