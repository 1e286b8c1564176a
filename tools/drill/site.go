package main

import (
	"context"
	"errors"
)

// site is an installation, and who harms it.
type site interface {
	// name is what the report calls it.
	name() string
	// harm does a fault to the replica (where the fault is about one) and says what was
	// done. heal ends it; nil if there is nothing to end. An errCannot was not tried.
	harm(ctx context.Context, f fault, replica string) (did string, heal func(ctx context.Context) error, err error)
	// close gives back what reaching the site took.
	close() error
}

// errCannot is wrapped by the reason for which a site cannot do a fault.
var errCannot = errors.New("cannot be done from here")

// places is how devices and the REST API reach a site.
type places struct {
	MQTT []string // host:port; a device tries one after the other
	HTTP []string // base URLs; the first that answers
	// Client and Secret sign in at the REST API.
	Client, Secret string
}
