package cmd

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"postrider/internal/inbox"
)

// chooseInboxes adds the flags that choose inboxes.
func (a *app) chooseInboxes(c *cobra.Command, chosen *inbox.Selection) {
	c.Flags().StringArrayVar(&chosen.Inboxes, "inbox", nil,
		"only the inbox `ADDR`, or those that a glob such as '*@acme.example' matches; may be repeated")
	complete(c, "inbox", a.addresses)
	c.Flags().StringArrayVar(&chosen.Labels, "label", nil,
		"only inboxes with the `LABEL`: tenant=acme, or tenant for any value; may be repeated, all have to hold")
	complete(c, "label", a.labels)
}

// clears marks flags whose empty value has a meaning.
const clears = "postrider_clears"

// mayBeEmpty is for flags that take "", which clears something.
func mayBeEmpty(c *cobra.Command, flags ...string) {
	for _, name := range flags {
		_ = c.Flags().SetAnnotation(name, clears, nil) // fails only for a flag that is not there
	}
}

// noEmptyFlags refuses flags that were given without a value. Otherwise a variable that a script
// has not set would select everything, or change what the user did not mean.
func noEmptyFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if _, allowed := f.Annotations[clears]; err != nil || allowed || !isEmpty(f.Value) {
			return
		}
		name := "--" + f.Name
		if f.Name == "config" {
			name = "-c"
		}
		err = usage(fmt.Errorf("%s has no value; give it one, or leave it out", name))
	})
	return err
}

func isEmpty(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		values := list.GetSlice()
		return len(values) == 0 || slices.Contains(values, "")
	}
	return v.String() == ""
}

var (
	negative = regexp.MustCompile(`^unknown shorthand flag: '\d' in (-\d+)$`)
	noBool   = regexp.MustCompile(`strconv\.ParseBool: .*$`)
	noUint   = regexp.MustCompile(`strconv\.ParseUint: parsing .*: invalid syntax$`)
	noNumber = regexp.MustCompile(`strconv\.Parse\w+: parsing .*: invalid syntax$`)
	tooLarge = regexp.MustCompile(`strconv\.Parse\w+: parsing .*: value out of range$`)
	noTime   = regexp.MustCompile(`time: .* duration .*$`)
	noPair   = regexp.MustCompile(`\S+ must be formatted as key=value$`)
)

// plain is an error about flags in plain English.
func plain(err error) error {
	text := err.Error()
	if m := negative.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%q looks like a flag; IDs and numbers cannot be negative", m[1])
	}
	text = noBool.ReplaceAllString(text, "it takes true or false")
	text = noUint.ReplaceAllString(text, "it takes a whole number that is not negative")
	text = noNumber.ReplaceAllString(text, "it takes a whole number")
	text = noTime.ReplaceAllString(text, "write it like 90s or 10m")
	text = noPair.ReplaceAllString(text, "it takes USER=ADDR")
	largest := int64(math.MaxInt)
	if strings.Contains(text, "strconv.ParseUint") { // of a UID
		largest = math.MaxUint32
	}
	return errors.New(tooLarge.ReplaceAllString(text, fmt.Sprintf("it is too large; the largest is %d", largest)))
}
