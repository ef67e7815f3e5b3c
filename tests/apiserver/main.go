// apiserver runs one real Kubernetes API server for tests and demos: etcd and
// kube-apiserver in this process, and as a child process the controller-manager
// with the garbage collector and the namespace controller.
//
// It prints one line of JSON when it is ready, and stops when its standard
// input ends, so that it cannot outlive whoever started it, however that ends.
// All else that it has to say goes to standard error and to files in its folder.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()

	var err error
	switch os.Args[1] {
	case "serve":
		err = serveCommand(ctx, os.Args[2:])
	case "controllers":
		err = runControllers(ctx, os.Args[2:])
	default:
		usage()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: apiserver serve --dir DIR [--context NAME] [--port N] [--no-fsync] [--audit-log FILE] [--temporary]")
	os.Exit(2)
}

func serveCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	options := serveOptions{}
	flags.StringVar(&options.dir, "dir", "", "folder for data, keys, logs and the kubeconfig; made if missing")
	flags.StringVar(&options.context, "context", "test", "name of the cluster, user and context in the kubeconfig")
	flags.IntVar(&options.port, "port", 0, "port on 127.0.0.1; 0 takes a free one")
	flags.BoolVar(&options.noFsync, "no-fsync", false, "do not flush etcd to disk: faster, and data is lost when the machine stops")
	flags.StringVar(&options.auditLog, "audit-log", "", "write an audit log (metadata of every request) to this file")
	flags.BoolVar(&options.temporary, "temporary", false, "remove the folder at the end")
	_ = flags.Parse(args)
	if options.dir == "" {
		return fmt.Errorf("--dir is missing: name a folder for data, keys and logs")
	}
	if rest := flags.Args(); len(rest) > 0 {
		return fmt.Errorf("%q is no flag of serve; run apiserver serve --help", rest[0])
	}
	return serve(ctx, options, func(ready readiness) {
		_ = json.NewEncoder(os.Stdout).Encode(ready)
	})
}
