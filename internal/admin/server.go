package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// Config is what a Server is made from.
type Config struct {
	// Addr is the loopback host:port to listen on; port 0 means any.
	Addr string
	Node Node
	// Users are the cluster's users; nil leaves their paths out.
	Users Users
	// Messages reads queues; nil leaves the path out.
	Messages Messages
	// Backups are of the node's state; nil leaves their path out.
	Backups Backups
	// Members is the cluster's membership, Leadership who leads it, Service the node's service to clients; nil leaves their paths out.
	Members    Members
	Leadership Leadership
	Service    Service
	// Dev adds /debug/pprof and Routes.
	Dev bool
	// Routes are further handlers by net/http pattern, mounted only with Dev. They
	// may run as long as RequestTimeout doesn't bind them: they set their own limits.
	Routes map[string]http.Handler
	// Logger takes what the HTTP server complains about; nil discards it.
	Logger *slog.Logger
	// RequestTimeout bounds each request of the API; 0 means 10 s.
	RequestTimeout time.Duration
	// MaxConnections bounds the callers that are connected at a time; more are hung up
	// on. 0 means 256.
	MaxConnections int
}

// Server is the admin listener of one node.
type Server struct {
	cfg      Config
	listener net.Listener
	http     *http.Server
}

// Listen binds the address and returns a server that answers once Run is called.
// It refuses an address that isn't loopback.
func Listen(cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = 10 * time.Second
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = 256
	}
	l, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("admin listener %s: %w", cfg.Addr, err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		l.Close()
		return nil, fmt.Errorf("admin listener %s: not a loopback address; the API asks nobody for a name, so only this machine may reach it", cfg.Addr)
	}
	return &Server{cfg: cfg, listener: l, http: &http.Server{
		Handler:           Handler(cfg),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      cfg.RequestTimeout + 5*time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}}, nil
}

// Addr is the bound address, with the port that the system chose.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run answers requests until ctx ends, then gives those under way a second. It
// returns nil after that, and the listener's error otherwise.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() {
		failed <- s.http.Serve(&bounded{Listener: s.listener, room: make(chan struct{}, s.cfg.MaxConnections)})
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("admin listener %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		s.http.Close()
	}
	<-failed
	return nil
}

// Handler is the API without a listener.
func Handler(cfg Config) http.Handler {
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = 10 * time.Second
	}
	a := &api{node: cfg.Node, users: cfg.Users, members: cfg.Members, leadership: cfg.Leadership, service: cfg.Service, timeout: cfg.RequestTimeout}
	mux := http.NewServeMux()
	a.route(mux, "/api/v1/status", methods{http.MethodGet: a.status})
	a.route(mux, "/livez", methods{http.MethodGet: a.live})
	a.route(mux, "/readyz", methods{http.MethodGet: a.ready})
	a.route(mux, "/api/v1/queues/{name}", methods{
		http.MethodPut: a.createQueue, http.MethodGet: a.readQueue, http.MethodDelete: a.deleteQueue,
	})
	a.route(mux, "/api/v1/queues/{name}/purge", methods{http.MethodPost: a.purgeQueue})
	if cfg.Users != nil {
		a.route(mux, "/api/v1/users", methods{http.MethodGet: a.listUsers})
		a.route(mux, "/api/v1/users/{name}", methods{http.MethodPut: a.addUser, http.MethodDelete: a.deleteUser})
		a.route(mux, "/api/v1/users/{name}/password", methods{http.MethodPut: a.changePassword})
	}
	if cfg.Messages != nil {
		mux.Handle("GET /api/v1/queues/{name}/messages", unlimited(http.HandlerFunc((&messages{cfg.Messages}).get)))
	}
	if cfg.Backups != nil {
		mux.Handle("GET /api/v1/backup", unlimited(http.HandlerFunc((&backups{source: cfg.Backups}).get)))
	}
	a.mountCluster(mux, cfg.Members, cfg.Leadership, cfg.Service)
	if cfg.Dev {
		mountProfiles(mux)
		for pattern, h := range cfg.Routes {
			mux.Handle(pattern, unlimited(h))
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, fmt.Errorf("no such path: %s; see /api/v1/status, /api/v1/cluster, /api/v1/node, /api/v1/queues/NAME, /api/v1/users, /livez, /readyz", r.URL.Path))
	})
	return guard(mux)
}

// mountProfiles mounts net/http/pprof at its usual place.
func mountProfiles(mux *http.ServeMux) {
	mux.Handle("GET /debug/pprof/", unlimited(http.HandlerFunc(pprof.Index)))
	mux.Handle("GET /debug/pprof/cmdline", http.HandlerFunc(pprof.Cmdline))
	mux.Handle("GET /debug/pprof/profile", unlimited(http.HandlerFunc(pprof.Profile)))
	mux.Handle("GET /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
	mux.Handle("GET /debug/pprof/trace", unlimited(http.HandlerFunc(pprof.Trace)))
}

// unlimited lifts the server's time limits for handlers that bound themselves.
func unlimited(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := errors.Join(rc.SetWriteDeadline(time.Time{}), rc.SetReadDeadline(time.Time{})); err != nil && !errors.Is(err, http.ErrNotSupported) {
			writeError(w, http.StatusInternalServerError, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// guard refuses what a web page could make a browser send here: the API asks nobody for
// a name, so being on this machine is the only right that is checked.
func guard(h http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			writeError(w, http.StatusForbidden, fmt.Errorf("host %q isn't a loopback address; use 127.0.0.1", r.Host))
			return
		}
		if err := cross.Check(r); err != nil {
			writeError(w, http.StatusForbidden, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v) // an error here is the client's broken connection
}

func writeError(w http.ResponseWriter, code int, err error) {
	writeJSON(w, code, map[string]string{"error": err.Error()})
}
