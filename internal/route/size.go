package route

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of octets. As text it is a whole number with a unit or without (10MiB, 500KB,
// 1024).
type Size int64

type sizeUnit struct {
	name   string
	octets int64
}

// sizeUnits are in the order in which String tries them.
var sizeUnits = []sizeUnit{
	{"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"B", 1},
}

// UnmarshalText reads a size above 0; units are without case.
func (s *Size) UnmarshalText(b []byte) error {
	in := string(b)
	digits := strings.TrimRight(in, "GMKiBgmkIb ")
	name, factor := strings.TrimSpace(in[len(digits):]), int64(0)
	for _, u := range sizeUnits {
		if strings.EqualFold(name, u.name) || (name == "" && u.octets == 1) {
			factor = u.octets
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || factor == 0 {
		return fmt.Errorf("%q is not a size; write a whole number with one of the units "+
			"B, KB, KiB, MB, MiB, GB, GiB, such as 50MiB", in)
	}
	if n <= 0 || n > math.MaxInt64/factor {
		return fmt.Errorf("%q is out of range; a size is above 0 and below 8 exbibytes", in)
	}
	*s = Size(n * factor)
	return nil
}

// String is the size with the largest unit that leaves a whole number.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.octets == 0 {
			return strconv.FormatInt(int64(s)/u.octets, 10) + u.name
		}
	}
	return "0B"
}
