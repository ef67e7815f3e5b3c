package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// credentials makes the administrator's token and the key that signs service
// account tokens, or reads those of an earlier run in the same folder.
func credentials(dir string) (string, error) {
	key := filepath.Join(dir, "service-account.key")
	if _, err := os.Stat(key); errors.Is(err, os.ErrNotExist) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return "", err
		}
		der, err := x509.MarshalECPrivateKey(private)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
			return "", err
		}
	}
	file := filepath.Join(dir, "token")
	if token, err := os.ReadFile(file); err == nil {
		return string(token), nil
	}
	random := make([]byte, 24)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	token := hex.EncodeToString(random)
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return "", err
	}
	return token, os.WriteFile(file, []byte(token), 0o600)
}

// servingCertificate waits for the certificate that the API server makes at its first start.
func servingCertificate(ctx context.Context, dir string, done <-chan error) (certificate []byte, err error) {
	err = poll(ctx, done, func() (err error) {
		certificate, err = os.ReadFile(filepath.Join(dir, "certs", "apiserver.crt"))
		if err == nil && len(certificate) == 0 {
			err = errors.New("the serving certificate is empty")
		}
		return err
	})
	return certificate, err
}

func writeKubeconfig(name string, state readiness) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: state.Server, CertificateAuthorityData: state.CertificateAuthorityData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: state.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, state.Kubeconfig)
}
