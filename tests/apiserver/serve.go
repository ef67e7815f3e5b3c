package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

type serveOptions struct {
	dir, context, auditLog string
	port                   int
	noFsync, temporary     bool
}

// readiness is the line printed once requests are answered and controllers run.
// It holds what a kubeconfig needs, so that whoever reads it can write one for
// several servers.
type readiness struct {
	Server                   string `json:"server"`
	CertificateAuthorityData []byte `json:"certificateAuthorityData"`
	Token                    string `json:"token"`
	Kubeconfig               string `json:"kubeconfig"`
}

func serve(ctx context.Context, o serveOptions, ready func(readiness)) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	if o.temporary {
		defer removeAll(o.dir)
	}
	sockets, err := socketFolder(o.dir)
	if err != nil {
		return err
	}
	defer removeAll(sockets)
	// It is never closed, which would take seconds: what it has acknowledged is in its log, and a kill is allowed too.
	etcdURL, err := startEtcd(ctx, o, sockets)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}

	// The listener is opened here, so that two servers started together cannot take the same free port.
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	token, err := credentials(o.dir)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- runAPIServer(ctx, o, listener, port, etcdURL) }()

	certificate, err := servingCertificate(ctx, o.dir, done)
	if err != nil {
		return err
	}
	state := readiness{
		Server:                   fmt.Sprintf("https://127.0.0.1:%d", port),
		CertificateAuthorityData: certificate,
		Token:                    token,
		Kubeconfig:               filepath.Join(o.dir, "kubeconfig"),
	}
	if err := writeKubeconfig(o.context, state); err != nil {
		return err
	}
	if err := waitReady(ctx, state.Kubeconfig, done); err != nil {
		return err
	}
	controllers, err := startControllers(o.dir, state.Kubeconfig)
	if err != nil {
		return fmt.Errorf("controller-manager: %w", err)
	}
	defer controllers.stop()

	ready(state)
	select {
	case <-ctx.Done():
		return nil
	case err := <-done:
		return fmt.Errorf("kube-apiserver ended: %w", err)
	case err := <-controllers.done:
		return fmt.Errorf("controller-manager ended, see controller-manager.log: %w", err)
	}
}

// removeAll tries a second time, since parts of the server may still write.
func removeAll(dir string) {
	if os.RemoveAll(dir) != nil {
		_ = os.RemoveAll(dir)
	}
}

// waitReady returns when /readyz says so, which includes the RBAC defaults and the system namespaces.
func waitReady(ctx context.Context, kubeconfig string, done <-chan error) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return poll(ctx, done, func() error {
		if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		for _, namespace := range []string{"default", "kube-system"} {
			if err := client.CoreV1().RESTClient().Get().Resource("namespaces").Name(namespace).Do(ctx).Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

// poll tries every 50 ms for two minutes, or until the API server has ended.
func poll(ctx context.Context, done <-chan error, try func() error) error {
	deadline := time.After(2 * time.Minute)
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ended := <-done:
			return fmt.Errorf("kube-apiserver ended: %w", ended)
		case <-deadline:
			return fmt.Errorf("kube-apiserver is not ready after two minutes: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
