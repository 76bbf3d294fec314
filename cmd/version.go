package cmd

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version being built; a build from a tagged module has its own.
const release = "0.1.0"

// packaged is the version of a package, which scripts/package sets when it links; else empty.
var packaged string

func version() string {
	if packaged != "" {
		return packaged
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return release
}

// about is the version and what it was built with and for.
func about() string {
	return fmt.Sprintf("postrider %s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takesNone,
		RunE: func(*cobra.Command, []string) error {
			a.print("%s\n", about())
			return nil
		},
	}
}
