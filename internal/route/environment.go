package route

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"
)

// environment is what an expression sees of a message. Texts are decoded. Addresses are in lower
// case and without names, and an xn-- domain is in Unicode.
type environment struct {
	Inbox         string                              `expr:"inbox"`
	Folder        string                              `expr:"folder"`
	Labels        map[string]string                   `expr:"labels"` // of the inbox: values by names
	From          []string                            `expr:"from"`
	To            []string                            `expr:"to"`
	Cc            []string                            `expr:"cc"`
	Recipients    []string                            `expr:"recipients"`
	Subject       string                              `expr:"subject"`
	ListID        string                              `expr:"list_id"`
	Header        func(name string) string            `expr:"header"`  // the first field of that name, or ""
	Headers       func(name string) ([]string, error) `expr:"headers"` // all of them
	Body          string                              `expr:"body"`
	Attachments   []string                            `expr:"attachments"`
	HasAttachment bool                                `expr:"has_attachment"`
	Size          int                                 `expr:"size"`
	Sent          time.Time                           `expr:"sent"`    // the Date field, in the match's time zone
	Arrived       time.Time                           `expr:"arrived"` // as for age and hours
	Age           time.Duration                       `expr:"age"`

	Split func(s, separator string, n ...int) ([]string, error) `expr:"split"` // the library's has no limit
}

// maxList is how many addresses, file names or fields of one kind an expression gets.
const maxList = 1000

var (
	errLongList = errors.New("it has more than 1,000 addresses, files or fields of one kind")
	errLoops    = errors.New("its lists and its text are too long for the loops of the expression")
)

// environment fills in what the expression uses; other lists are empty.
func (e *expression) environment(v *view) (env environment, err error) {
	header := func(name string) string {
		for _, t := range v.text(name) {
			return t.shown
		}
		return ""
	}
	env = environment{
		Inbox: v.mail.Inbox, Folder: v.mail.Folder, Labels: labels(v.mail.Labels), Size: int(v.mail.Size),
		Subject: header("Subject"), ListID: header("List-Id"), Header: header,
		Sent: v.header.Date().In(e.zone), Arrived: v.arrived().In(e.zone), Age: v.age(),
	}
	if e.content {
		for _, t := range v.body() { // one at most
			env.Body = t.shown
		}
		env.HasAttachment = v.content().HasAttachment
	}
	l := lister{depth: e.depth, text: len(env.Body) + len(env.Subject) + len(env.ListID)}
	env.Headers = func(name string) ([]string, error) { return l.list(v.text(name), shown) }
	env.Split = l.split
	return env, e.fillLists(&env, v, l)
}

func (e *expression) fillLists(env *environment, v *view, l lister) error {
	addresses := func(fields ...string) func() []text {
		return func() []text { return v.addressesOf(fields...) }
	}
	for _, field := range []struct {
		name string
		list *[]string
		get  func() []text
		of   func(text) string
	}{
		{"from", &env.From, addresses("From"), folded},
		{"to", &env.To, addresses("To"), folded},
		{"cc", &env.Cc, addresses("Cc"), folded},
		{"recipients", &env.Recipients, addresses(recipientFields...), folded},
		{"attachments", &env.Attachments, v.attachments, shown},
	} {
		if !slices.Contains(e.names, field.name) {
			continue
		}
		var err error
		if *field.list, err = l.list(field.get(), field.of); err != nil {
			return err
		}
	}
	return nil
}

func folded(t text) string { return t.folded }

func shown(t text) string { return t.shown }

// lister makes the lists of a message for an expression, as long as its loops can take them.
type lister struct {
	depth int // of loops in loops
	text  int // octets
}

func (l lister) list(texts []text, of func(text) string) ([]string, error) {
	if len(texts) > maxList {
		return nil, errLongList
	}
	if err := l.check(len(texts)); err != nil {
		return nil, err
	}
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = of(t)
	}
	return out, nil
}

func (l lister) split(s, separator string, n ...int) ([]string, error) {
	limit := -1
	if len(n) > 0 {
		limit = n[0]
	}
	parts := strings.SplitN(s, separator, limit)
	return parts, l.check(len(parts))
}

// check assumes the worst: all loops go over lists of that length, and look at all of the text.
func (l lister) check(length int) error {
	if float64(l.text+stepCost)*math.Pow(float64(length), float64(l.depth)) > maxScanned {
		return errLoops
	}
	return nil
}
