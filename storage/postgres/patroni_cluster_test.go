//go:build linux

package postgres_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"
)

// patroniConfig is the configuration of one node. The three times are as short as
// Patroni allows in relation to each other: a failover begins after at most 7 seconds.
const patroniConfig = `
scope: canvasback
name: %[1]s
restapi: {listen: '127.0.0.1:%[2]s', connect_address: '127.0.0.1:%[2]s'}
etcd: {host: '127.0.0.1:%[3]s'}
bootstrap:
  dcs:
    ttl: 7
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    postgresql:
      use_pg_rewind: false
      remove_data_directory_on_diverged_timelines: true
      parameters: {max_connections: 200, wal_keep_size: 64MB, max_wal_size: 128MB}
  initdb: [encoding: UTF8, locale: C, auth: scram-sha-256]
  pg_hba: [host all all 127.0.0.1/32 scram-sha-256, host replication all 127.0.0.1/32 scram-sha-256]
postgresql:
  listen: '127.0.0.1:%[4]s'
  connect_address: '127.0.0.1:%[4]s'
  data_dir: %[5]s/data
  remove_data_directory_on_diverged_timelines: true
  pgpass: %[5]s/pgpass
  bin_dir: %[6]s
  authentication:
    superuser: {username: postgres, password: secret}
    replication: {username: replicator, password: secret}
  parameters: {unix_socket_directories: '', fsync: off}
`

// patroniNode is one server, with its agent.
type patroniNode struct {
	t          testing.TB
	name, dir  string
	port, rest string
	credential *syscall.Credential // nil for the current user
	agent      *exec.Cmd
}

// patroniCluster is three nodes and a single etcd.
type patroniCluster struct {
	t     testing.TB
	nodes []*patroniNode
}

// startPatroni starts a cluster with synchronous replication, which is removed at
// the end of the test. It needs the programs etcd, patroni and PostgreSQL, such as
// those of the Debian packages patroni, python3-etcd, etcd-server and postgresql.
func startPatroni(t testing.TB) *patroniCluster {
	t.Helper()
	is := is.New(t)
	programs := must(filepath.Glob("/usr/lib/postgresql/*/bin"))(t)
	is.True(len(programs) != 0)
	dir := must(os.MkdirTemp("", "canvasback-patroni-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	credential := postgresAccount(t)
	if credential != nil {
		os.Chown(dir, int(credential.Uid), int(credential.Gid))
	}
	client, peer := freePort(t), freePort(t)
	etcd := exec.Command("etcd", "--enable-v2", "--data-dir", dir+"/etcd",
		"--listen-client-urls", "http://127.0.0.1:"+client, "--advertise-client-urls", "http://127.0.0.1:"+client,
		"--listen-peer-urls", "http://127.0.0.1:"+peer, "--initial-advertise-peer-urls", "http://127.0.0.1:"+peer,
		"--initial-cluster", "default=http://127.0.0.1:"+peer)
	startProcess(t, etcd, credential, dir+"/etcd.log")

	c := &patroniCluster{t: t}
	for _, name := range []string{"a", "b", "c"} {
		n := &patroniNode{t: t, name: name, dir: dir + "/" + name, port: freePort(t), rest: freePort(t), credential: credential}
		c.nodes = append(c.nodes, n)
		is.NoErr(os.Mkdir(n.dir, 0o700))
		config := fmt.Sprintf(patroniConfig, name, n.rest, client, n.port, n.dir, programs[len(programs)-1])
		is.NoErr(os.WriteFile(n.dir+"/patroni.yml", []byte(config), 0o644))
		if credential != nil {
			os.Chown(n.dir, int(credential.Uid), int(credential.Gid))
		}
		n.start()
		t.Cleanup(n.kill)
	}
	return c
}

// postgresAccount returns the account for the servers if the current user is root.
func postgresAccount(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	account := must(user.Lookup("postgres"))(t)
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func freePort(t testing.TB) string {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// startProcess starts a process that is killed at the end of the test.
func startProcess(t testing.TB, cmd *exec.Cmd, credential *syscall.Credential, logFile string) {
	t.Helper()
	is := is.New(t)
	log := must(os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))(t)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = filepath.Dir(logFile)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+cmd.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Setsid: true}
	is.NoErr(cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
}

// start starts the agent, which starts the server.
func (n *patroniNode) start() {
	n.t.Helper()
	n.agent = exec.Command("patroni", n.dir+"/patroni.yml")
	startProcess(n.t, n.agent, n.credential, n.dir+"/patroni.log")
}

func (n *patroniNode) signalAgent(signal syscall.Signal) { n.agent.Process.Signal(signal) }

// signalServer sends a signal to all processes of the server.
func (n *patroniNode) signalServer(signal syscall.Signal) {
	text, err := os.ReadFile(n.dir + "/data/postmaster.pid")
	if err != nil {
		return // not running
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		n.t.Fatal(err)
	}
	children, err := exec.Command("ps", "--ppid", first, "-o", "pid=").Output()
	syscall.Kill(postmaster, signal)
	if err != nil {
		return // none
	}
	for _, child := range strings.Fields(string(children)) {
		id, _ := strconv.Atoi(child)
		syscall.Kill(id, signal)
	}
}

func (n *patroniNode) kill() {
	n.signalAgent(syscall.SIGKILL)
	n.agent.Wait()
	n.signalServer(syscall.SIGKILL)
}

// waitFailover waits until a node other than old is the primary.
func (c *patroniCluster) waitFailover(old *patroniNode) {
	c.t.Helper()
	var pools []*pgxpool.Pool
	for _, n := range c.nodes {
		if n != old {
			pool := connect(c.t, c.dsn(n))
			defer pool.Close()
			pools = append(pools, pool)
		}
	}
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		for _, pool := range pools {
			standby := true
			pool.QueryRow(c.t.Context(), `SELECT pg_is_in_recovery()`).Scan(&standby) // fails while it restarts
			if !standby {
				return
			}
		}
	}
	c.t.Fatal("no failover")
}

// dsn returns the URL of the database on the given nodes.
func (c *patroniCluster) dsn(nodes ...*patroniNode) string {
	var hosts []string
	for _, n := range nodes {
		hosts = append(hosts, "127.0.0.1:"+n.port)
	}
	return "postgres://postgres:secret@" + strings.Join(hosts, ",") + "/postgres?sslmode=disable"
}

// waitHealthy waits until all nodes are running and one is a synchronous standby.
// It returns the primary. A node that does not become a standby is created again.
func (c *patroniCluster) waitHealthy() *patroniNode {
	c.t.Helper()
	var (
		status clusterStatus
		err    error
	)
	for range 3 {
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(200 * time.Millisecond) {
			if status, err = c.status(); err == nil && status.healthy(len(c.nodes)) {
				return c.node(status.withRole("leader")[0])
			}
		}
		for _, member := range status.Members {
			if n := c.node(member.Name); !member.running() && member.Role != "leader" {
				c.t.Logf("%s is %s and is created again", n.name, member.State)
				n.kill()
				os.RemoveAll(n.dir + "/data")
				n.start()
			}
		}
	}
	for _, n := range c.nodes {
		log, _ := os.ReadFile(n.dir + "/patroni.log")
		c.t.Logf("%s: %s", n.name, log[max(0, len(log)-2000):])
	}
	c.t.Fatalf("the cluster does not become healthy: %v %v", status, err)
	return nil
}

func (c *patroniCluster) node(name string) *patroniNode {
	return c.nodes[slices.IndexFunc(c.nodes, func(n *patroniNode) bool { return n.name == name })]
}

type clusterStatus struct {
	Members []clusterMember
}

type clusterMember struct{ Name, Role, State string }

func (m clusterMember) running() bool { return m.State == "running" || m.State == "streaming" }

// withRole returns the names of the running members that have the role.
func (s clusterStatus) withRole(role string) (names []string) {
	for _, member := range s.Members {
		if member.running() && member.Role == role {
			names = append(names, member.Name)
		}
	}
	return names
}

// healthy reports whether all nodes are running in their roles.
func (s clusterStatus) healthy(nodes int) bool {
	primaries, synchronous := len(s.withRole("leader")), len(s.withRole("sync_standby"))
	return primaries == 1 && synchronous > 0 && primaries+synchronous+len(s.withRole("replica")) == nodes
}

// status returns the status of the cluster as the agents know it.
func (c *patroniCluster) status() (status clusterStatus, err error) {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://127.0.0.1:" + c.nodes[0].rest + "/cluster")
	if err != nil {
		return status, err
	}
	defer response.Body.Close()
	return status, json.NewDecoder(response.Body).Decode(&status)
}
