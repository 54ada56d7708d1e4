// Command devserver is a Temporal server for tests and for trying things out: one process on the loopback interface, with
// SQLite in memory or in a file, and without a web page. It is built from go.temporal.io/server through the Go module
// proxy, since Temporal's own command line tool cannot be installed from there; nothing imports it. Not for production.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	serverlog "go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const loopback = "127.0.0.1"

func main() {
	port := flag.Int("port", 7233, "port on "+loopback+" for clients and workers; 0: a free one")
	file := flag.String("db-filename", "", "SQLite file that outlives the server; default: in memory")
	namespace := flag.String("namespace", "default", "namespace to create")
	untilEOF := flag.Bool("until-eof", false, "stop when standard input ends, as it does when the program that holds it is killed")
	flag.Parse()
	if err := run(*port, *file, *namespace, *untilEOF); err != nil {
		log.Fatal(err)
	}
}

// run serves until a signal or the end of standard input. It prints "READY <address>" when clients can connect.
func run(port int, file, namespace string, untilEOF bool) error {
	db, err := database(file, namespace)
	if err != nil {
		return fmt.Errorf("open the database %s: %w", file, err)
	}
	services := map[primitives.ServiceName]int{ // port by service
		primitives.FrontendService: port, primitives.HistoryService: 0, primitives.MatchingService: 0, primitives.WorkerService: 0,
	}
	cfg := &config.Config{Services: map[string]config.Service{}}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, port := range services {
		if port == 0 {
			if port, err = freePort(); err != nil {
				return err
			}
		}
		services[name] = port
		cfg.Services[string(name)] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback}}
		hosts[name] = static.SingleLocalHost(address(port))
	}
	frontend := address(services[primitives.FrontendService])
	cfg.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback}
	cfg.Persistence = config.Persistence{
		DefaultStore: "sqlite", VisibilityStore: "sqlite", NumHistoryShards: 1,
		DataStores: map[string]config.DataStore{"sqlite": {SQL: db}},
	}
	cfg.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10, MasterClusterName: "active", CurrentClusterName: "active",
		ClusterInformation: map[string]cluster.ClusterInformation{
			"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend, ClusterID: "devserver"},
		},
	}
	cfg.DCRedirectionPolicy.Policy = "noop"
	cfg.Archival.History.State, cfg.Archival.Visibility.State = "disabled", "disabled"
	cfg.NamespaceDefaults.Archival.History.State, cfg.NamespaceDefaults.Archival.Visibility.State = "disabled", "disabled"
	cfg.PublicClient.HostPort = frontend

	logger := serverlog.NewZapLogger(serverlog.BuildZapLogger(serverlog.Config{Level: "error"})) // to standard error
	server, err := temporal.NewServer(
		temporal.WithConfig(cfg), temporal.ForServices(temporal.DefaultServices), temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger), temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithDynamicConfigClient(dynamicconfig.StaticClient{
			dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key():      true,
			dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
		}))
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("start on %s: %w", frontend, err)
	}
	fmt.Println("READY", frontend)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	if untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop <- syscall.SIGTERM
		}()
	}
	<-stop
	return server.Stop()
}

// database makes the tables and the namespace, unless the file has them.
func database(file, namespace string) (*config.SQL, error) {
	db := &config.SQL{PluginName: sqliteplugin.PluginName, DatabaseName: file, ConnectAttributes: map[string]string{"mode": "rwc"}}
	if file == "" {
		db.DatabaseName = strconv.FormatUint(rand.Uint64(), 36)
		db.ConnectAttributes = map[string]string{"mode": "memory", "cache": "shared"}
	} else if _, err := os.Stat(file); os.IsNotExist(err) {
		if err := sqlite.SetupSchema(db); err != nil {
			return nil, err
		}
	}
	created, err := sqlite.NewNamespaceConfig("active", namespace, false, nil)
	if err != nil {
		return nil, err
	}
	return db, sqlite.CreateNamespaces(db, created)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", address(0))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
