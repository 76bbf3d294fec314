package main

import (
	"bytes"
	"encoding/pem"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// writeRoots writes the certificates that Mozilla trusts as PEM, for the container image, which has
// no system to ask. It leaves out those that are trusted only with conditions, because PEM cannot
// say so.
func writeRoots(file string) error {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
