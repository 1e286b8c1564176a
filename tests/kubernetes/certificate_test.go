package kubernetes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"maestrohub.io/uns/tools/launch"
)

// deviceTLS is the Secret of the devices' listener, and the name its certificate has.
const (
	deviceTLS  = "e2e-mqtt-tls"
	deviceName = "mqtt.e2e.test"
)

// authority signs the certificates of the devices' listener.
var authority *launch.Authority

// putCertificate writes a new certificate into the Secret and returns its serial.
func putCertificate(ctx context.Context, namespace string) (*big.Int, error) {
	if authority == nil {
		made, err := launch.NewAuthority("e2e")
		if err != nil {
			return nil, err
		}
		authority = made
	}
	cert, key, err := authority.Issue(deviceName)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	secret := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: deviceTLS}, Type: core.SecretTypeTLS,
		Data: map[string][]byte{core.TLSCertKey: cert, core.TLSPrivateKeyKey: key}}
	_, err = cluster.CoreV1().Secrets(namespace).Create(ctx, secret, meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = cluster.CoreV1().Secrets(namespace).Update(ctx, secret, meta.UpdateOptions{})
	}
	return parsed.SerialNumber, err
}

func TestARenewedCertificateReachesTheNextHandshake(t *testing.T) {
	s := start(t)
	open := s.replica(t, 0).Client(t, "device", "certificate-open") // must stay
	want, err := putCertificate(t.Context(), s.release.namespace)
	if err != nil {
		t.Fatal(err)
	}
	renewed := time.Now()
	for i := range 2 {
		before := s.pod(t, i)
		address := cluster.toPod(t, before, 8883)
		until(t, 3*time.Minute, s.podName(i)+" to show the renewed certificate", func() (bool, string) {
			c, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address, &tls.Config{ServerName: deviceName, InsecureSkipVerify: true})
			if err != nil {
				return false, err.Error()
			}
			defer c.Close()
			shown := c.ConnectionState().PeerCertificates[0]
			return shown.SerialNumber.Cmp(want) == 0, fmt.Sprintf("serial %v, want %v", shown.SerialNumber, want)
		})
		if after := s.pod(t, i); restarts(after) != restarts(before) {
			t.Errorf("%s was restarted for a certificate", s.podName(i))
		}
	}
	row(t, "certificate renewed: every replica's next handshake shows it", "no restart", time.Since(renewed))
	open.ExpectNothing()
}
