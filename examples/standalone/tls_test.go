package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/net/dns/dnsmessage"
)

// The server obtains a certificate from a real ACME server by TLS-ALPN-01, keeps it
// for the next start, and obtains another one by HTTP-01.
func TestTLS_ObtainsCertificate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	program := findPebble(t)
	dir := t.TempDir()
	httpsAddr, httpAddr := freeAddr(t), freeAddr(t)
	const host = "canvas.example"
	port80 := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: httpAddr})
		r.Out.Host = host // without a port, as at port 80
	}})
	t.Cleanup(port80.Close)
	directory, roots := startPebble(t, program, dir, httpsAddr, port80.Listener.Addr().String())
	start := func(variables ...string) (log *syncBuffer, stop func()) {
		t.Helper()
		log = new(syncBuffer)
		command := programCommand(t, append([]string{"ADDR=" + httpsAddr, "DATABASE_URL=memory:", "TLS_HOSTS=" + host,
			"TLS_CACHE_DIR=" + filepath.Join(dir, "cache"), "TLS_DIRECTORY_URL=" + directory, "SSL_CERT_FILE=" + filepath.Join(dir, "cert.pem")}, variables...))
		command.Stderr = log
		_, stop = startProcess(t, command)
		waitForText(t, "address="+httpsAddr, log)
		return log, stop
	}
	// get sends a request to host, wherever its certificate must come from.
	get := func(url string) (*http.Response, error) {
		addr := httpsAddr
		if strings.HasPrefix(url, "http:") {
			addr = httpAddr
		}
		transport := &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			},
			TLSClientConfig:   &tls.Config{RootCAs: roots()},
			ForceAttemptHTTP2: true,
		}
		defer transport.CloseIdleConnections()
		request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
		response, err := transport.RoundTrip(request)
		if err == nil {
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		return response, err
	}

	// issued sends requests until there is a certificate: on a busy machine the server ends
	// a handshake that waits for it for more than 10 s.
	issued := func(log *syncBuffer) (response *http.Response) {
		waitFor(t, func() (ok bool) {
			var err error
			response, err = get("https://" + host + "/healthz")
			return err == nil
		}, log)
		return response
	}

	log, stop := start() // TLS-ALPN-01: nothing listens at httpAddr
	response := issued(log)
	t.Log(log)
	is.Equal(response.StatusCode, http.StatusOK)
	is.Equal(response.Proto, "HTTP/2.0")
	serial := response.TLS.PeerCertificates[0].SerialNumber
	_, err := get("https://other.example/healthz")
	is.True(err != nil) // no certificate is requested
	stop()

	_, stop = start("TLS_HTTP_ADDR=" + httpAddr)
	response = must(get("https://" + host + "/healthz"))(t)
	is.Equal(response.TLS.PeerCertificates[0].SerialNumber, serial) // from the cache
	response = must(get("http://" + host + "/console.js?x=1"))(t)
	is.Equal(response.StatusCode, http.StatusPermanentRedirect)
	_, port, _ := net.SplitHostPort(httpsAddr)
	is.Equal(response.Header.Get("Location"), "https://"+host+":"+port+"/console.js?x=1")
	stop()

	httpsAddr = freeAddr(t) // unknown to the ACME server, so TLS-ALPN-01 fails
	log, _ = start("TLS_HTTP_ADDR="+httpAddr, "TLS_CACHE_DIR="+filepath.Join(dir, "empty"))
	response = issued(log)
	t.Log(log)
	is.True(response.TLS.PeerCertificates[0].SerialNumber.Cmp(serial) != 0)
}

func findPebble(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("pebble")
	if err != nil {
		out, _ := exec.CommandContext(t.Context(), "go", "env", "GOPATH").Output()
		program = filepath.Join(strings.TrimSpace(string(out)), "bin", "pebble")
		_, err = os.Stat(program)
	}
	if err != nil {
		is.New(t).True(os.Getenv("CI") != "true") // pebble is not installed
		t.Skip("pebble is not installed: go install github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1")
	}
	return program
}

// startPebble starts an ACME server that validates names at these addresses. It
// returns the URL of its directory, and a function that returns the roots of its
// certificates. Its own certificate is cert.pem in dir.
func startPebble(t *testing.T, program, dir, httpsAddr, httpAddr string) (directory string, roots func() *x509.CertPool) {
	t.Helper()
	is := is.New(t)
	writeCertificate(t, dir)
	port := func(addr string) json.Number {
		_, port, _ := net.SplitHostPort(addr)
		return json.Number(port)
	}
	acme, management := freeAddr(t), freeAddr(t)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress":           acme,
		"managementListenAddress": management,
		"certificate":             filepath.Join(dir, "cert.pem"),
		"privateKey":              filepath.Join(dir, "key.pem"),
		"httpPort":                port(httpAddr),
		"tlsPort":                 port(httpsAddr),
		"retryAfter":              map[string]int{"authz": 1, "order": 1},
		"profiles":                map[string]any{"default": map[string]any{"description": "default", "validityPeriod": 7776000}},
	}})
	is.NoErr(err)
	is.NoErr(os.WriteFile(filepath.Join(dir, "pebble.json"), config, 0o600))
	log := new(syncBuffer)
	command := exec.CommandContext(t.Context(), program, "-config", filepath.Join(dir, "pebble.json"), "-dnsserver", startDNS(t))
	command.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0")
	command.Stdout, command.Stderr = log, log
	startProcess(t, command)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log)
		}
	})
	waitForText(t, "ACME directory available", log)

	own := x509.NewCertPool()
	content := must(os.ReadFile(filepath.Join(dir, "cert.pem")))(t)
	is.True(own.AppendCertsFromPEM(content))
	return "https://" + acme + "/dir", func() *x509.CertPool {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: own}}
		defer transport.CloseIdleConnections()
		response := must((&http.Client{Transport: transport}).Get("https://" + management + "/roots/0"))(t)
		defer response.Body.Close()
		root := must(io.ReadAll(response.Body))(t)
		pool := x509.NewCertPool()
		is.True(pool.AppendCertsFromPEM(root))
		return pool
	}
}

// writeCertificate writes a certificate for 127.0.0.1 that is its own root.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	is := is.New(t)
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	certificate := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	private := must(x509.MarshalPKCS8PrivateKey(key))(t)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: certificate},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		is.NoErr(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

// startDNS starts a DNS server over TCP that resolves every name to 127.0.0.1.
func startDNS(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	is.New(t).NoErr(err)
	var running sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(time.Minute))
				for respondDNS(conn) == nil {
				}
			})
		}
	})
	return listener.Addr().String()
}

func respondDNS(conn net.Conn) error {
	length := make([]byte, 2) // before each message
	if _, err := io.ReadFull(conn, length); err != nil {
		return err
	}
	buffer := make([]byte, binary.BigEndian.Uint16(length))
	if _, err := io.ReadFull(conn, buffer); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(buffer); err != nil {
		return err
	}
	m.Response = true
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	response, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(response))), response...))
	return err
}
