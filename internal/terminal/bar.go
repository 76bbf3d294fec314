package terminal

import (
	"io"
	"sync"

	"github.com/schollz/progressbar/v3"
)

// Bar is a progress bar that appears with the first thing to do. A bar that cannot be drawn is no
// reason to fail, so its methods return no errors. The zero Bar draws nothing; all methods may be
// called at once.
type Bar struct {
	To    io.Writer // nil for nowhere
	Doing string

	mu  sync.Mutex
	bar *progressbar.ProgressBar
}

// Expect adds n things to do.
func (b *Bar) Expect(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.To == nil || n <= 0:
	case b.bar != nil:
		b.bar.ChangeMax(b.bar.GetMax() + n)
	default: // the library refuses a bar of nothing
		b.bar = progressbar.NewOptions(n, progressbar.OptionSetWriter(b.To), progressbar.OptionShowCount(),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(b.Doing))
	}
}

// Done says that n things are done.
func (b *Bar) Done(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar != nil {
		_ = b.bar.Add(n)
	}
}

// Clear makes room for a line. The bar is drawn again with the next Done.
func (b *Bar) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}

// Close takes the bar away.
func (b *Bar) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar != nil {
		_ = b.bar.Finish()
		b.bar = nil
	}
}
