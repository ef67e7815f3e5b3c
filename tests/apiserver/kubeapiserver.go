package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/component-base/logs"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

func runAPIServer(ctx context.Context, o serveOptions, listener net.Listener, port int, etcdURL string) error {
	options := apioptions.NewServerRunOptions()
	flags := options.Flags()
	args := map[string]string{
		"bind-address":                     "127.0.0.1",
		"advertise-address":                "127.0.0.1",
		"secure-port":                      fmt.Sprint(port),
		"cert-dir":                         filepath.Join(o.dir, "certs"),
		"etcd-servers":                     etcdURL,
		"token-auth-file":                  filepath.Join(o.dir, "tokens.csv"),
		"authorization-mode":               "RBAC",
		"service-account-issuer":           "https://kubernetes.default.svc",
		"service-account-key-file":         filepath.Join(o.dir, "service-account.key"),
		"service-account-signing-key-file": filepath.Join(o.dir, "service-account.key"),
		"service-cluster-ip-range":         "10.0.0.0/24",
		// Nobody looks for this server by the Service, whose endpoints could not be on a loopback address.
		"endpoint-reconciler-type": "none",
		// No controller makes the service accounts that this plugin would wait for.
		"disable-admission-plugins": "ServiceAccount",
	}
	if o.auditLog != "" {
		policy := filepath.Join(o.dir, "audit.yaml")
		if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\nomitStages: [RequestReceived]\n"), 0o600); err != nil {
			return err
		}
		args["audit-policy-file"], args["audit-log-path"] = policy, o.auditLog
	}
	for name, value := range args {
		set := false
		for _, f := range flags.FlagSets {
			if f.Lookup(name) != nil {
				if err := f.Set(name, value); err != nil {
					return fmt.Errorf("--%s: %w", name, err)
				}
				set = true
			}
		}
		if !set {
			return fmt.Errorf("--%s: no such flag of kube-apiserver", name)
		}
	}
	options.SecureServing.Listener = listener
	logs.InitLogs()
	completed, err := options.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	return app.Run(ctx, completed)
}
