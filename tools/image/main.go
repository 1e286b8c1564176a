package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	o := options{Ports: []string{"1883/tcp", "8883/tcp", "8083/tcp", "8080/tcp", "7884/tcp"}}
	var platforms, layout, archive string
	flag.StringVar(&o.Package, "package", "./broker", "main package to build")
	flag.StringVar(&o.Release, "release", "", "release number; empty: the binary names its commit")
	flag.StringVar(&o.Reference, "reference", "maestrohub/uns-broker:latest", "name under which the image is imported")
	flag.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	flag.StringVar(&archive, "output", "", "OCI archive to write")
	flag.StringVar(&layout, "layout", "", "OCI layout folder to write")
	flag.StringVar(&o.Certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "CA bundle to include if it exists")
	flag.Parse()
	o.Platforms = strings.Split(platforms, ",")
	if err := run(o, layout, archive); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run builds the image and writes it where it was asked for.
func run(o options, layout, archive string) error {
	if layout == "" && archive == "" {
		return fmt.Errorf("nothing to write: give -output, -layout or both")
	}
	var err error
	if o.Created, err = sourceDate(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	index, err := build(o)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("read digest: %w", err)
	}
	if layout != "" {
		if err := writeLayout(layout, index, o); err != nil {
			return err
		}
		fmt.Printf("%s  %s\n", digest, layout)
	}
	if archive != "" {
		if err := writeArchive(archive, index, o); err != nil {
			return err
		}
		fmt.Printf("%s  %s\n", digest, archive)
	}
	return nil
}

// sourceDate reads SOURCE_DATE_EPOCH (reproducible-builds.org): seconds since 1970.
func sourceDate(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH (%s) must be seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
