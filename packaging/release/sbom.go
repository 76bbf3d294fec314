package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// bom is a list of components as CycloneDX 1.6 has it, with no more than postrider needs.
type bom struct {
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
	Dependencies []dependsOn `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []license  `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type license struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependsOn struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

// writeSBOM lists what a binary was made of, as the linker recorded it in the binary.
func writeSBOM(binary, version, file string, at time.Time) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	octets, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(octets)
	text, err := json.MarshalIndent(describe(info, version, hex.EncodeToString(sum[:]), at), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// describe is the list for a binary with this SHA-256 sum.
func describe(info *debug.BuildInfo, version, sum string, at time.Time) bom {
	self := component{Type: "application", Name: "postrider", Version: version}
	self.PURL = "pkg:generic/postrider@" + version
	self.Ref = self.PURL
	self.Hashes = []hash{{"SHA-256", sum}}
	mit := license{}
	mit.License.ID = "MIT"
	self.Licenses = []license{mit}
	for _, s := range info.Settings {
		self.Properties = append(self.Properties, property{"go:" + s.Key, s.Value})
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	parts := []component{library("std", goVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, library(m.Path, m.Version))
	}
	root := dependsOn{Ref: self.Ref}
	for _, p := range parts {
		root.On = append(root.On, p.Ref)
	}
	return bom{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata:   metadata{Timestamp: at.Format(time.RFC3339), Component: self},
		Components: parts, Dependencies: []dependsOn{root},
	}
}

func library(path, version string) component {
	purl := fmt.Sprintf("pkg:golang/%s@%s", path, strings.ReplaceAll(version, "+", "%2B"))
	return component{Ref: purl, Type: "library", Name: path, Version: version, PURL: purl}
}
