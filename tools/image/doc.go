// Command image builds the broker's container image without a container engine:
// one static binary per platform on an empty base, as an OCI archive that
// `skopeo copy oci-archive:…`, `ctr image import` and `podman load` take, or as an
// OCI layout folder.
//
//	go run ./tools/image -output dist/broker-oci.tar
//	go run ./tools/image -layout dist/broker-oci -platforms linux/arm64 -release 3.0.0
//
// What is in the image: /broker; the host's CA certificates, if it has any; a
// passwd entry for user 65532, as which it runs; and /var/lib/maestrohub, which
// is that user's, the working directory and so where data goes by default.
// Nothing else: no shell, no package manager, no libc.
//
// The steps:
//
//  1. build.go compiles the program for each platform, CGO off and paths trimmed.
//  2. layer.go packs files into layers whose bytes depend on their content alone.
//  3. image.go puts manifest and configuration around them, one image per
//     platform under one index.
//  4. archive.go writes the layout and packs it.
//
// The same source and toolchain give the same digest: every time stamp is
// SOURCE_DATE_EPOCH, or 0 without it.
package main
