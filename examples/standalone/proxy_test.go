//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi/conform"
)

// proxies are reverse proxies by program, with the arguments and the configuration that
// pass everything below http://LISTEN to http://SERVER.
var proxies = map[string]struct {
	args   []string // before the path of the configuration
	config string
}{
	"nginx": {[]string{"-c"}, `
daemon off;
USER
pid DIR/pid;
error_log DIR/error.log;
events {}
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	server {
		listen LISTEN;
		client_max_body_size 64m;
		location / {
			proxy_pass http://SERVER;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $http_host;
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}
}
`},
	"haproxy": {[]string{"-db", "-f"}, `
defaults
	mode http
	timeout connect 10s
	timeout client 60s
	timeout server 60s
frontend viewer
	bind LISTEN
	default_backend canvasback
backend canvasback
	server first SERVER
`},
	"caddy": {[]string{"run", "--adapter", "caddyfile", "--config"}, `
{
	admin off
	storage file_system DIR
}
http://LISTEN {
	reverse_proxy SERVER
}
`},
}

// TestProxies_DeliverTheContract runs the tests of package conform through proxies.
func TestProxies_DeliverTheContract(t *testing.T) {
	for program, proxy := range proxies {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			path, err := exec.LookPath(program)
			if err != nil {
				is.True(os.Getenv("CI") != "true") // the program is not installed
				t.Skipf("%s is not installed", program)
			}
			config := proxy.config
			if program == "caddy" {
				version := must(exec.Command(path, "version").Output())(t)
				if strings.HasPrefix(string(version), "2.6.") { // it may close a connection whose response begins while it reads the request
					config = strings.Replace(config, "reverse_proxy SERVER", "reverse_proxy SERVER {\n buffer_requests\n}", 1)
				}
			}
			files := t.TempDir()
			is.NoErr(os.WriteFile(filepath.Join(files, "plan.pdf"), []byte(strings.Repeat("%PDF-1.7 ", 50_000)), 0o600))
			s := startServer(t, map[string]string{"EXPORT_DIR": files, "ADMIN_API_KEY": firstAdminKey})
			address := strings.TrimPrefix(s.baseURL(), "http://")
			conform.Run(t, conform.Options{
				BaseURL:  startProxy(t, path, proxy.args, config, address) + "/api",
				AdminKey: firstAdminKey,
				FileURL:  "http://files.internal/plan.pdf",
			})
		})
	}
}

// TestProxies_HAProxyNamesAreUnique checks the documents: HAProxy 3.3 rejects a backend with
// the name of a frontend.
func TestProxies_HAProxyNamesAreUnique(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, name := range []string{"DEPLOY.md", "PROCESSES.md"} {
		text := must(os.ReadFile("../../.github/" + name))(t)
		sections := regexp.MustCompile(`(?m)^(?:frontend|backend|listen) (\S+)`).FindAllStringSubmatch(string(text), -1)
		is.True(len(sections) > 0)
		seen := make(map[string]bool)
		for _, section := range sections {
			is.True(!seen[section[1]]) // another section has this name
			seen[section[1]] = true
		}
	}
}

// startProxy starts a proxy of a server and returns its URL.
func startProxy(t *testing.T, program string, args []string, config, address string) string {
	t.Helper()
	is := is.New(t)
	listen := freeAddr(t)
	dir, user := t.TempDir(), ""
	if os.Geteuid() == 0 {
		user = "user root;" // the directory belongs to it
	}
	file := filepath.Join(dir, "config")
	config = strings.NewReplacer("DIR", dir, "USER", user, "LISTEN", listen, "SERVER", address).Replace(config)
	is.NoErr(os.WriteFile(file, []byte(config), 0o600))
	output := new(syncBuffer)
	proxy := exec.Command(program, append(args, file)...)
	proxy.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir) // where Caddy saves its configuration
	proxy.Stdout, proxy.Stderr = output, output
	is.NoErr(proxy.Start())
	ended := make(chan error, 1)
	go func() { ended <- proxy.Wait() }()
	t.Cleanup(func() {
		proxy.Process.Signal(os.Interrupt) // nginx and HAProxy also end their children
		<-ended
	})
	waitFor(t, func() bool {
		response, err := http.Get(fmt.Sprintf("http://%s/api/openapi.json", listen))
		if err == nil {
			response.Body.Close()
		}
		return err == nil || len(ended) > 0
	}, output)
	if len(ended) > 0 {
		t.Fatalf("%s has ended:\n%s", program, output)
	}
	return "http://" + listen
}
