// Package images makes the container images a lab runs and pushes them to a
// registry, without a container engine: layers of files, configuration, manifest.
//
//	set, err := images.Build(ctx, images.Options{Root: root, Cache: dir})
//	err = set.Push(ctx, "127.0.0.1:5000", true)
//
// What there is, and of what:
//
//	maestrohub/uns-broker   tools/image, the image that is shipped
//	library/nats, natsio/…  nats-server and its reloader, as tools/peers builds them
//	library/postgres        the server of Debian's package; its settings and
//	                        environment are named as the official image's are. It
//	                        stands in for timescale/timescaledb too, without the
//	                        extension, which Debian does not have
//	prom/prometheus         the server and promtool of Debian's package
//	pause, kubelab/coredns  what every cluster runs
//	kubelab/toolbox         a shell and a few network checks
//
// The names and tags are those the charts ask for by default, so that a lab runs a
// chart as it is; where a chart asks for another version than is built, that is an
// error.
//
// An image is made again only when what goes into it has changed: its layers are
// kept in the cache under a digest of their files.
package images
