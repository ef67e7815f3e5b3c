package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// socketFolder is below dir, so that nothing is left elsewhere even after a
// kill, unless that makes the sockets' paths longer than the 108 bytes that a
// kernel allows.
func socketFolder(dir string) (string, error) {
	sockets := filepath.Join(dir, "sockets")
	if len(sockets) > 90 {
		return os.MkdirTemp("", "etcd")
	}
	return sockets, os.MkdirAll(sockets, 0o700)
}

// startEtcd listens on unix sockets: they need no port and die with the folder.
func startEtcd(ctx context.Context, o serveOptions, sockets string) (string, error) {
	client := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "client")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "peer")}

	c := embed.NewConfig()
	c.Name = "e"
	c.Dir = filepath.Join(o.dir, "etcd")
	// What is advertised stays as it is by default, since etcd allows no sockets there. No other member reads it.
	c.ListenClientUrls, c.ListenPeerUrls = []url.URL{client}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.UnsafeNoFsync = o.noFsync
	c.LogLevel = "error"
	c.LogOutputs = []string{filepath.Join(o.dir, "etcd.log")}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return "", err
	}
	select {
	case <-e.Server.ReadyNotify():
		return client.String(), nil
	case <-ctx.Done():
		return "", ctx.Err()
	case err := <-e.Err():
		return "", err
	case <-time.After(time.Minute):
		return "", errors.New("not ready after a minute; see etcd.log")
	}
}
